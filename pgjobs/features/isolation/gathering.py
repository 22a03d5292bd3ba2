"""How many isolated jobs a worker runs at the same time: `runjobs --isolated`.

The claim counts them by their rows. While the bound is reached, it passes over all of
them. The row of a plain INSERT does not say that its task is isolated: one that is too
many goes back at once, and says so from then on.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...queue.claiming import ClaimedJob
from ...queue.recording import Outcome, release
from ...tasks.registry import registry

if TYPE_CHECKING:
    from ...worker.claimer import Claimer

TOO_MANY = "Put back: its worker runs as many isolated jobs as it may."


def gathered(claimer: "Claimer", jobs: Sequence[ClaimedJob]) -> Sequence[ClaimedJob]:
    """Return the isolated jobs for which there are processes; put the others back."""
    names = {name for name in {job.task for job in jobs} if is_isolated(name)}
    claimer.begin([job for job in jobs if job.task not in names])
    isolated = [job for job in jobs if job.task in names]
    free = claimer.capacity.free_processes
    others = isolated[free:]
    # They end before they begin: what stores an outcome lets none of them get lost.
    claimer.in_flight.claim(others)
    claimer.in_flight.put(put_back(job) for job in others)
    claimer.in_flight.isolated.update(job.lease_token for job in isolated[:free])
    return isolated[:free]


def is_isolated(name: str) -> bool:
    task = registry.find(name)
    return task is not None and task.options.isolated


def put_back(job: ClaimedJob) -> Outcome:
    outcome = release(job, TOO_MANY, has_begun=False)
    return outcome._replace(statement="put_back")
