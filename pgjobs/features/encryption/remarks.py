"""How many jobs of encrypted tasks are not encrypted."""

from django.utils.translation import ngettext

from ...reports.reading import Report, rows_with_keys
from ...reports.remarks import Alert, Remark, Seen

MOST_COUNTED = 10_000  # of the newest jobs
IN_THE_CLEAR = {"most": MOST_COUNTED}


def in_the_clear(seen: Seen, limit: None) -> list[Remark]:
    """Say how many of the newest jobs have encrypted arguments in the clear."""
    ((number,),) = rows_with_keys(seen.database, "in_the_clear", IN_THE_CLEAR)
    if not number:
        return []
    text = ngettext(
        "Of the newest jobs, %d has arguments that should be encrypted and are not. "
        "Run: manage.py reencryptjobs",
        "Of the newest jobs, %d have arguments that should be encrypted and are not. "
        "Run: manage.py reencryptjobs",
        number,
    )
    return [Remark(text % number, "job")]


# What a role that may not read keys reads through a view.
ROLE_VIEWS = (Report("in_the_clear", IN_THE_CLEAR, ("number",)),)
ALERTS = (
    Alert(
        "encrypted_in_clear",
        "Some of the newest jobs have arguments that should be encrypted and are not.",
        in_the_clear,
    ),
)
