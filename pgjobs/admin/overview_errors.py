"""The errors of failed jobs on the overview, and what is done to all jobs of one."""

from typing import Any

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..reports.errors import Failures
from ..reports.texts import excerpt
from .acts import DELETE, RETRY
from .charts import sparkline
from .links import list_url
from .markup import LONGEST_CELL, ago, breakable, status_and_note
from .overview_links import Links, Table
from .overview_words import filters_of, name_of_task, number_of

LONGEST_REASON = 120
# As the list itself would ask for the confirmation of a bulk act.
ACT_FORM = (
    '<form class="pgjobs-act" method="post" action="{}">'
    '<input type="hidden" name="action" value="{}_selected">'
    '<input type="hidden" name="select_across" value="1">'
    '<input type="hidden" name="_selected_action" value="{}">'
    '<input type="hidden" name="csrfmiddlewaretoken" value="{}">'
    "<button>{}</button></form> "
)


class ErrorTables(Links):
    def errors(self, groups: list[Failures]) -> Table:
        columns = (
            _("Error"),
            _("Task and place"),
            _("Failed now"),
            _("Last 24 hours"),
            _("First"),
            _("Last"),
            _("All of them"),
        )
        rows = [self.error_row(group) for group in groups if not group.is_muted]
        title = _("Errors of the failed jobs (the latest 10,000)")
        return Table(title, columns, rows, _("No failed jobs."))

    def error_row(self, group: Failures) -> tuple[Any, ...]:
        kind = group.kind
        name = excerpt(group.exception_class, LONGEST_CELL)
        where = self.list_link("job", name_of_task(group.task), task=group.task)
        if kind is not None:
            where = status_and_note(where, breakable(excerpt(kind.place, LONGEST_CELL)))
        return (
            status_and_note(
                breakable(name) or gettext("No exception"),
                excerpt(group.reason, LONGEST_REASON),
            ),
            where,
            self.list_link("job", number_of(group), **filters_of(group)),
            sparkline(group.by_hour),
            ago(kind.first_at) if kind else "",
            ago(group.last_at),
            self.acts_on(group),
        )

    def acts_on(self, group: Failures) -> str:
        """Return buttons that lead to the confirmation for all jobs of a group."""
        url = list_url("job", self.site, **filters_of(group))
        offered = [
            (url, each.verb, group.last_id, self.token, each.label)
            for each in (RETRY, DELETE)
            if self.user.has_perm(f"pgjobs.{each.permission}_job")
        ]
        return format_html(
            "{}{}", format_html_join("", ACT_FORM, offered), self.mute(group)
        )

    def mute(self, group: Failures) -> str:
        if group.kind is None or not self.user.has_perm("pgjobs.mute_errorgroup"):
            return ""
        url = reverse(
            "admin:pgjobs_job_mute", args=(group.kind.pk,), current_app=self.site.name
        )
        return format_html(
            '<a href="{}">{}</a>',
            url,
            gettext("Unmute") if group.is_muted else gettext("Mute"),
        )

    def muted(self, groups: list[Failures]) -> Table | None:
        """Return the groups that an operator muted."""
        columns = (_("Error"), _("Task"), _("Failed now"), _("Muted in version"), "")
        rows = [
            (
                excerpt(group.exception_class, LONGEST_CELL),
                name_of_task(group.task),
                self.list_link("job", number_of(group), **filters_of(group)),
                excerpt(group.kind.muted_version or gettext("any"), LONGEST_CELL),
                self.mute(group),
            )
            for group in groups
            if group.kind is not None and group.is_muted
        ]
        return Table(_("Muted errors"), columns, rows, "") if rows else None
