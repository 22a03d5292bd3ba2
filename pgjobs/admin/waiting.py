"""What the waiting jobs of a page wait for."""

from collections.abc import Iterable

from ..models import Job, Status
from ..models.obstacles import described, obstacles
from ..models.status import living_workers


def attach_obstacles(jobs: Iterable[Job]) -> None:
    """Give each waiting job an `obstacle` in words: two queries, if there are any."""
    waiting = [job for job in jobs if job.status == Status.WAITING]
    if not waiting:
        return
    found = obstacles(Job.objects.db, [job.pk for job in waiting])
    workers = living_workers(Job.objects.db)
    for job in waiting:
        if job.pk in found:
            job.obstacle = described(found[job.pk], workers)
