"""A system check on the modes in which no worker runs."""

from django.conf import settings as django_settings
from django.core import mail
from django.core.checks import CheckMessage, Warning, register

from ...conf import problems, settings

FATES = {
    "inline": "the request that enqueues a job runs it, and waits for its end",
    "manual": "no worker runs the jobs",
}


@register("pgjobs")
def check_mode(**kwargs) -> list[CheckMessage]:
    """Warn of such a mode where it looks like production."""
    if any(problems()) or settings.MODE == "queue":
        return []
    if django_settings.DEBUG or is_test():
        return []
    return [
        Warning(
            f"PGJOBS['MODE'] is {settings.MODE!r}, although DEBUG is off: "
            f"{FATES[settings.MODE]}.",
            hint="Leave MODE out. It is for tests and development.",
            id="pgjobs.W046",
        )
    ]


def is_test() -> bool:
    """Whether a test runner of Django's is at work: it sets DEBUG to False."""
    return hasattr(mail, "outbox")
