"""What the process of isolated jobs tells others by itself, before it may be killed."""

import sys

from ...models.job import Job

EXPORTERS = ("otel", "sentry")  # in use if they are imported


def failed(id: int, error: BaseException) -> None:
    """Report the failure of a job here, where its exception is."""
    module = sys.modules.get(f"{__package__}.sentry")
    job = Job.objects.filter(pk=id).first() if module else None
    if module and job is not None:
        module.report_isolated(job, error)


def flush(seconds: float) -> None:
    """Send what is still to be sent."""
    for name in EXPORTERS:
        if module := sys.modules.get(f"{__package__}.{name}"):
            module.flush(seconds)
