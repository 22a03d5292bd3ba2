"""`capture_jobs`: what a block enqueues, whether it is rolled back or not."""

from collections.abc import Iterator
from contextlib import contextmanager

from .. import signals
from ..models import Job


@contextmanager
def capture_jobs() -> Iterator[list[Job]]:
    """Collect the jobs that Python enqueues in the block, and deliveries of events.

    They are as they were at that moment. The list also has jobs whose transaction was
    rolled back. It has no job that SQL inserted. `with` returns the list.
    """
    captured: list[Job] = []

    def note(job: Job, **named) -> None:
        captured.append(job)

    signals.job_enqueued.connect(note, sender=Job, weak=False)
    try:
        yield captured
    finally:
        signals.job_enqueued.disconnect(note, sender=Job)
