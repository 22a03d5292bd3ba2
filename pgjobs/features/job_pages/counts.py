"""How many jobs of each status a list with filters has, for its tabs."""

from collections.abc import Iterator
from copy import copy

from django.contrib.admin.views.main import ORDER_VAR, PAGE_VAR
from django.core.exceptions import EmptyResultSet

from ...admin.filters import chosen, order_of_index
from ...admin.jobs import JobList
from ...admin.tabs import MOST_COUNTED, Tab, capped, is_filtered, status_tabs
from ...admin.tabs import PARAMETER as STATUS
from ...models.job import Job
from ...reports.reading import read, sql_of

# What the filters of the list itself have left at its request.
OF_FILTERS = ("pgjobs_matches", "pgjobs_branches", "pgjobs_cut_at")
COUNTS = "SELECT status, count(*) FROM ({}) AS found GROUP BY status"


class WholeList(JobList):
    """The jobs of a list in all statuses, of which no page is read."""

    def get_results(self, request):
        pass


def tabs_context(request, changelist, admin) -> dict[str, list[Tab]]:
    """Return the tabs of a list with filters, with their numbers."""
    if not is_filtered(changelist):
        return {}
    numbers = counts_of(request, admin)
    is_cut = sum(numbers.values()) > MOST_COUNTED
    return {"tabs": list(with_numbers(status_tabs(changelist), numbers, is_cut))}


def with_numbers(tabs, numbers: dict[str, int], is_cut: bool) -> Iterator[Tab]:
    """Yield the tabs; `is_cut`: the newest jobs were counted, and there are others."""
    for tab in tabs:
        number = capped(numbers.get(tab.status, 0)) if tab.status else ""
        more = "+" if is_cut and number and not number.endswith("+") else ""
        yield tab._replace(number=number + more)


def counts_of(request, admin) -> dict[str, int]:
    """Count as many of the newest jobs that match the other filters as a list counts.

    It reads what the list without a status would read to count its rows.
    """
    other = copy(request)
    other.GET = request.GET.copy()
    for name in (STATUS, PAGE_VAR, ORDER_VAR):
        other.GET.pop(name, None)
    for name in OF_FILTERS:
        vars(other).pop(name, None)
    jobs = whole_list(other, admin).queryset.order_by(*order_of_index(other))
    try:
        text, values = sql_of(jobs.values_list("status")[: MOST_COUNTED + 1])
    except EmptyResultSet:
        return {}
    return dict(read(Job.objects.db, COUNTS.format(text), values))


def whole_list(request, admin) -> WholeList:
    return WholeList(
        request,
        Job,
        list_display=(),
        list_display_links=(),
        list_filter=chosen(request),
        date_hierarchy=None,
        search_fields=admin.search_fields,
        list_select_related=False,
        list_per_page=1,
        list_max_show_all=1,
        list_editable=(),
        model_admin=admin,
        sortable_by=(),
        search_help_text="",
    )
