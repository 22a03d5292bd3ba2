"""How many jobs of encrypted tasks stand in the clear."""

from django.utils.translation import ngettext

from ...reports.reading import Report, rows_with_keys
from ...reports.remarks import Remark, Seen

MOST_COUNTED = 10_000  # of the newest jobs
IN_THE_CLEAR = {"most": MOST_COUNTED}


def remarks(seen: Seen) -> list[Remark]:
    """Say how many of the newest jobs have encrypted arguments in the clear."""
    ((number,),) = rows_with_keys(seen.database, "in_the_clear", IN_THE_CLEAR)
    if not number:
        return []
    text = ngettext(
        "Of the newest jobs, %d has encrypted arguments that stand in the clear. Run: "
        "manage.py reencryptjobs",
        "Of the newest jobs, %d have encrypted arguments that stand in the clear. Run: "
        "manage.py reencryptjobs",
        number,
    )
    return [Remark(text % number, "job")]


# What a role that may not read keys reads through a view.
ROLE_VIEWS = (Report("in_the_clear", IN_THE_CLEAR, ("number",)),)
