"""What all tables of the overview are made with: links to what the user may view."""

from typing import Any, NamedTuple

from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode

from ...admin.links import list_url, page, page_of_remark
from ...admin.markup import LONGEST_CELL, breakable
from ...reports.remarks import Remark
from ...reports.texts import excerpt

LONGEST_PROBLEM = 300
MOST_ROWS = 5  # of a section: the most urgent ones


class Table(NamedTuple):
    title: Any
    columns: tuple[Any, ...]
    rows: list[tuple[Any, ...]]
    otherwise: Any  # the text if there are no rows
    more: Any = ""  # what stands below the rows
    url: str = ""  # of the list with all rows
    name: str = ""  # for its style

    @property
    def lines(self) -> list[list[tuple[Any, Any]]]:
        """Return the first rows as pairs of a column's title and a cell, for phones."""
        rows = self.rows[:MOST_ROWS]
        return [list(zip(self.columns, row, strict=True)) for row in rows]

    @property
    def hidden(self) -> int:
        return max(len(self.rows) - MOST_ROWS, 0)


class Problem(NamedTuple):
    """A line of the list of problems and remarks."""

    text: str  # a link where there is a page
    acknowledged: str
    url: str  # where it is acknowledged; empty if the user may not


class Links:
    """Makes links for one user of one site."""

    def __init__(self, admin_site, user, token: str):
        self.site = admin_site
        self.user = user
        self.token = token  # of CSRF

    def may_view(self, model: str) -> bool:
        return self.user.has_perm(f"pgjobs.view_{model}")

    def link(self, model: str, pk: int | None, text: Any) -> str:
        if pk is None or not self.may_view(model):
            return text
        return format_html('<a href="{}">{}</a>', page(model, pk, self.site), text)

    def list_of(self, model: str, **filters) -> str:
        """Return the address of a list, or nothing if the user may not view it."""
        return list_url(model, self.site, **filters) if self.may_view(model) else ""

    def list_link(self, model: str, text: Any, **filters) -> str:
        if not self.may_view(model):
            return text
        url = list_url(model, self.site, **filters)
        return format_html('<a href="{}">{}</a>', url, text)

    def remark(self, remark: Remark) -> str:
        text = excerpt(remark.text, LONGEST_PROBLEM)
        if not remark.model or not self.may_view(remark.model):
            return text
        url = page_of_remark(remark, self.site)
        return format_html('<a href="{}">{}</a>', url, text)

    def problem(self, remark: Remark) -> Problem:
        """Return a remark with what may be done about it."""
        may = self.user.has_perm("pgjobs.acknowledge_remark") and remark.kind
        url = reverse("admin:pgjobs_job_acknowledge", current_app=self.site.name)
        named = urlencode({"kind": remark.kind, "subject": remark.subject})
        return Problem(
            text=self.remark(remark),
            acknowledged=excerpt(remark.acknowledged, LONGEST_PROBLEM),
            url=f"{url}?{named}" if may else "",
        )


def name_of_task(name: str) -> str:
    return breakable(excerpt(name, LONGEST_CELL))
