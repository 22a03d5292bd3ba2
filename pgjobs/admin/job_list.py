"""The list of jobs: how it may be sorted, and when it reads its rows."""

from typing import Any

from django.contrib.admin.views.main import ChangeList

from .filters import reads_all


class JobList(ChangeList):
    """The list of jobs. No address sorts it by a column that its heads do not sort."""

    queryset: Any  # of the jobs that the filters and the search leave

    def get_ordering_field(self, field_name):
        is_sortable = field_name in self.sortable_by
        return super().get_ordering_field(field_name) if is_sortable else None

    def _get_default_ordering(self):  # which the heads of the columns show
        by_end = "latest" in self.sortable_by
        return ("-finished_at",) if by_end else super()._get_default_ordering()

    def get_results(self, request):
        """Read a page; for acts and exports none, since they read all jobs by id."""
        whole = self.queryset
        if reads_all(request):
            self.queryset = whole.none()
        super().get_results(request)
        self.queryset = whole
