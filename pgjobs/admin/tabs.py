"""The tabs above the list of jobs: one for each status."""

from collections.abc import Iterator
from typing import NamedTuple

from django.contrib.admin.views.main import ORDER_VAR, PAGE_VAR
from django.db import connections
from django.utils.translation import gettext as _

from ..models.job import Job
from ..models.job_choices import Status
from ..sql import statement

PARAMETER = "status"
NARROW_NOT = {PARAMETER, ORDER_VAR}  # parameters


class Tab(NamedTuple):
    status: str  # empty for all
    label: str
    number: str  # empty if it is not counted
    address: str
    is_current: bool


def status_tabs(changelist) -> Iterator[Tab]:
    """Yield the tabs; each keeps the other filters of the list.

    The numbers count the whole table, and stand at a list without other filters.
    """
    numbers = {} if is_filtered(changelist) else status_counts(Job.objects.db)
    current = changelist.params.get(PARAMETER)
    everything = changelist.get_query_string(remove=[PARAMETER, PAGE_VAR])
    yield Tab("", _("All"), "", everything, current is None)
    for status in map(Status, Status.values):
        address = changelist.get_query_string({PARAMETER: status}, [PAGE_VAR])
        number = capped(numbers.get(status))
        yield Tab(status, status.label, number, address, current == status)


def is_filtered(changelist) -> bool:
    """Whether a list is narrowed by more than a status."""
    return any(changelist.params[name] for name in {*changelist.params} - NARROW_NOT)


def capped(number: int | None) -> str:
    if number is None:
        return ""
    return f"{MOST_COUNTED:,}+" if number > MOST_COUNTED else f"{number:,}"


MOST_COUNTED = 10_000


def status_counts(database: str) -> dict[str, int]:
    """Return the number of jobs by status, one more than MOST_COUNTED at most."""
    with connections[database].cursor() as cursor:
        cursor.execute(statement("status_counts"), {"most": MOST_COUNTED + 1})
        return dict(cursor.fetchall())
