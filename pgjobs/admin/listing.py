"""Lists of large tables: nothing here looks at all rows."""

from collections.abc import Iterable

from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html_join
from django.utils.http import urlencode

from ..models import Status
from .waiting import attach_obstacles

COUNTED = 10_000


def count_up_to(limit: int, queryset) -> int:
    """Count the rows, but no more than `limit`, reading nothing but their ids."""
    return queryset.order_by().values("pk")[:limit].count()


class CappedPaginator(Paginator):
    """Pages of the first 10,000 rows; the others are not even counted."""

    @cached_property
    def found(self) -> int:
        """The number of rows, or one more than is counted."""
        return count_up_to(COUNTED + 1, self.object_list)

    @property
    def is_capped(self) -> bool:
        return self.found > COUNTED

    @cached_property
    def count(self) -> int:
        return min(self.found, COUNTED)


class JobChangeList(ChangeList):
    """A list that says for whom its waiting jobs wait."""

    def get_results(self, request):
        super().get_results(request)
        self.result_list = list(self.result_list)
        attach_obstacles(self.result_list)


def links_by_status(admin_site, counts, statuses: Iterable[Status], **filters) -> str:
    """Return how many jobs there are of each status, as links to their lists.

    `counts`: has a number by the name of each status. `filters`: of the list.
    """
    url = reverse("admin:pgjobs_job_changelist", current_app=admin_site.name)
    links = [
        (
            url,
            urlencode({**filters, "status": status}),
            number,
            Status(status).label.lower(),
        )
        for status in statuses
        if (number := getattr(counts, status.lower()))
    ]
    return format_html_join(", ", '<a href="{}?{}">{} {}</a>', links)
