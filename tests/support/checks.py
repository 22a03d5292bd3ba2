"""What the system checks of pgjobs say."""

from django.core.checks import run_checks


def found(**kwargs) -> dict[str, str]:
    """Return the messages of pgjobs' checks by their id."""
    kwargs.setdefault("databases", [])
    return {
        message.id: f"{message.msg} {message.hint or ''}"
        for message in run_checks(tags=["pgjobs"], **kwargs)
    }
