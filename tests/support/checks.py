"""What the system checks of pgjobs say."""

from django.core.checks import CheckMessage, run_checks

# Tests of features declare such tasks, and have settings and loggers for them.
OTHERS = ("isolated.", "tests.encryption.")


def found(**kwargs) -> dict[str | None, str]:
    """Return the messages of pgjobs' checks by their id."""
    kwargs.setdefault("databases", [])
    return {
        message.id: f"{message.msg} {message.hint or ''}"
        for message in run_checks(tags=["pgjobs"], **kwargs)
        if not is_of_others(message)
    }


def is_of_others(message: CheckMessage) -> bool:
    name = getattr(message.obj, "name", None)
    return str(name or message.msg).startswith(OTHERS)
