"""What operators should know about jobs that wait for dependencies."""

from datetime import timedelta

from django.utils.translation import ngettext

from ...conf import positive_seconds
from ...reports.reading import Report, rows_with_keys
from ...reports.remarks import PATIENCE, Alert, Remark, Seen
from ...reports.status import MOST_COUNTED

UNLOOKED = {"most": MOST_COUNTED, "patience": PATIENCE}


def unlooked(seen: Seen, patience: float) -> list[Remark]:
    """Return how many jobs wait for a dependency that was not looked for."""
    limits = UNLOOKED | {"patience": timedelta(seconds=patience)}
    ((number,),) = rows_with_keys(seen.database, "unlooked_dependencies", limits)
    if not number:
        return []
    text = ngettext(
        "%d job waits for a dependency that no worker has looked for.",
        "%d jobs wait for dependencies that no worker has looked for.",
        number,
    )
    return [Remark(text % number, "job", filters={"status": "WAITING"})]


# What a role that may not read keys reads through a view.
ROLE_VIEWS = (Report("unlooked_dependencies", UNLOOKED, ("number",)),)

ALERTS = (
    Alert(
        "dependency_unlooked",
        "Jobs have waited so long for dependencies that no worker has looked for.",
        unlooked,
        value=PATIENCE.total_seconds(),
        read=positive_seconds,
    ),
)
