"""What the waiting jobs of a page wait for."""

from collections.abc import Iterable

from ..models import Job, Status
from ..reports.obstacles import described, obstacles
from ..reports.status import living_workers
from ..reports.units import described_shortage, units_in_use


def attach_obstacles(jobs: Iterable[Job]) -> None:
    """Give jobs that cannot run yet an `obstacle` in words.

    Two queries if any of them waits, two if any takes process units.
    """
    jobs = list(jobs)
    attach_shortages(job for job in jobs if job.status == Status.READY)
    waiting = [job for job in jobs if job.status == Status.WAITING]
    if not waiting:
        return
    found = obstacles(Job.objects.db, [job.pk for job in waiting])
    workers = living_workers(Job.objects.db)
    for job in waiting:
        if job.pk in found:
            job.obstacle = described(found[job.pk], workers)


def attach_shortages(ready: Iterable[Job]) -> None:
    """Tell of the process units that are missing."""
    heavy = [job for job in ready if job.process_units is not None]
    if not heavy:
        return
    in_use = units_in_use(Job.objects.db)
    workers = living_workers(Job.objects.db)
    for job in heavy:
        job.obstacle = described_shortage(job, workers, in_use)
