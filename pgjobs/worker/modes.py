"""The modes in which no worker may run."""

from django.core.exceptions import ImproperlyConfigured

from ..conf import settings


def refuse_mode() -> None:
    """Raise ImproperlyConfigured unless PGJOBS["MODE"] leaves the jobs to workers."""
    if settings.MODE != "queue":
        raise ImproperlyConfigured(
            f"PGJOBS['MODE'] is {settings.MODE!r}, in which no worker may run: it is "
            "for tests and development. Leave it out, or say 'queue'. In a test, "
            "pgjobs.testing.run_jobs() runs jobs in any mode."
        )
