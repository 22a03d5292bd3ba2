"""Which ready jobs no worker can ever run."""

from django.db.models import Count
from django.utils.translation import ngettext

from ...models.job import Job
from ...reports.remarks import Alert, Remark, Seen
from ...reports.units import most_units

MOST_COUNTED = 10_000  # heavy jobs that are read


def too_heavy(seen: Seen, _) -> list[Remark]:
    """Say which ready jobs take more units than any worker has that serves them."""
    if all(worker.units is None for worker in seen.alive):
        return []
    ready = Job.objects.using(seen.database).ready()
    heavy = ready.filter(process_units__isnull=False).some(MOST_COUNTED)
    rows = heavy.values("queue_name", "process_units").annotate(number=Count("pk"))
    noticed = []
    for row in rows.order_by("queue_name", "process_units"):
        most = most_units(row["queue_name"], seen.alive)
        if most is not None and row["process_units"] > most:
            text = ngettext(
                "%(number)d ready job in queue %(queue)s takes %(units)d process "
                "units, but the workers there have %(most)d: it can never run.",
                "%(number)d ready jobs in queue %(queue)s take %(units)d process units "
                "each, but the workers there have %(most)d: they can never run.",
                row["number"],
            )
            values = {
                "number": row["number"],
                "queue": row["queue_name"],
                "units": row["process_units"],
                "most": most,
            }
            queue = row["queue_name"]
            noticed.append(Remark(text % values, "worker", subject=queue))
    return noticed


ALERTS = (
    Alert(
        "jobs_too_heavy",
        "Jobs take more process units than any worker of their queue has.",
        too_heavy,
    ),
)
