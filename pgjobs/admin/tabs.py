"""The tabs above the list of jobs: one for each status."""

from collections.abc import Iterator
from typing import NamedTuple

from django.contrib.admin.views.main import PAGE_VAR
from django.utils.translation import gettext as _

from ..models import Job, Status
from ..reports.status_counts import MOST_COUNTED, status_counts

PARAMETER = "status"


class Tab(NamedTuple):
    label: str
    number: str  # empty if it is not counted
    address: str
    is_current: bool


def status_tabs(changelist) -> Iterator[Tab]:
    """Yield the tabs; each keeps the other filters of the list.

    The numbers count the whole table. A list with other filters shows none, because
    to count its jobs could take long.
    """
    is_filtered = bool(set(changelist.params) - {PARAMETER})
    numbers = {} if is_filtered else status_counts(Job.objects.db)
    current = changelist.params.get(PARAMETER)
    everything = changelist.get_query_string(remove=[PARAMETER, PAGE_VAR])
    yield Tab(_("All"), "", everything, current is None)
    for status in map(Status, Status.values):
        address = changelist.get_query_string({PARAMETER: status}, [PAGE_VAR])
        number = capped(numbers.get(status))
        yield Tab(status.label, number, address, current == status)


def capped(number: int | None) -> str:
    if number is None:
        return ""
    return f"{MOST_COUNTED:,}+" if number > MOST_COUNTED else f"{number:,}"
