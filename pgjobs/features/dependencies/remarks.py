"""What operators should know about jobs that wait for dependencies."""

from django.utils.translation import ngettext

from ...reports.reading import Report, rows_with_keys
from ...reports.remarks import PATIENCE, Remark, Seen
from ...reports.status import MOST_COUNTED

UNLOOKED = {"most": MOST_COUNTED, "patience": PATIENCE}


def remarks(seen: Seen) -> list[Remark]:
    """Return how many jobs wait for a dependency that was not looked for."""
    database = seen.database
    ((number,),) = rows_with_keys(database, "unlooked_dependencies", UNLOOKED)
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
