"""Process units: how many are in use on each host, and which a job waits for."""

from collections import defaultdict
from collections.abc import Iterable

from django.db.models import BigIntegerField, Sum, Value
from django.db.models.functions import Coalesce
from django.utils.translation import gettext

from ..models.job import Job
from ..models.worker import Worker


def units_in_use(database: str) -> dict[str, int]:
    """Return the units that running jobs take of each host, named or not.

    The jobs of a worker that left without a row take units of all hosts.
    """
    units = Coalesce("process_units", Value(1, BigIntegerField()))
    rows = (
        Job.objects.using(database)
        .running()
        .values("worker__host")
        .annotate(units=Sum(units))
        .order_by()
    )
    by_host = {row["worker__host"]: row["units"] for row in rows}
    ownerless = by_host.pop(None, 0)
    taken = {host: units + ownerless for host, units in by_host.items()}
    return defaultdict(lambda: ownerless, taken)


def most_units(queue_name: str, workers: Iterable[Worker]) -> int | None:
    """Return the largest total of the workers that serve the queue.

    None means that one of them has no limit. `workers`: those alive.
    """
    totals = [worker.units for worker in workers if worker.serves(queue_name)]
    if not totals or None in totals:
        return None
    return max(total for total in totals if total is not None)


def described_shortage(
    job: Job, workers: Iterable[Worker], in_use: dict[str, int]
) -> str:
    """Say what a ready job waits for if no host has room for it, else nothing.

    `workers`: those alive. `in_use`: see `units_in_use`.
    """
    serving = [worker for worker in workers if worker.serves(job.queue_name)]
    most = most_units(job.queue_name, serving)
    if most is None:
        return ""
    units = job.process_units or 1
    if units > most:
        text = gettext(
            "takes %(units)d process units, the workers have %(most)d: can never run"
        )
        return text % {"units": units, "most": most}
    if any(units <= (each.units or 0) - in_use[each.host] for each in serving):
        return ""
    return gettext("waits for %(units)d process units") % {"units": units}
