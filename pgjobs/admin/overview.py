"""The overview: what needs attention, and how queues, workers and schedules are.

Nothing here reads a table's finished jobs but by an index, and at most so many of them.
"""

from collections.abc import Iterator
from typing import Any

from django.db.models import F, Q
from django.middleware.csrf import get_token
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import database_time
from ..models import AuditEntry, Job, Schedule, Status, Worker
from ..models.job_choices import WaitingFor
from ..reports import status
from ..reports.durations import seconds_in_words
from ..reports.errors import failures
from ..reports.figures import PERIODS, Sums, figures, versions
from ..reports.job_filters import InvalidFilter, checked
from ..reports.remarks import PATIENCE
from ..reports.replica import replica_age
from ..reports.texts import excerpt
from .audit_words import act_in_words
from .charts import History, ended_jobs, run_times, waiting_times
from .links import number_and_status
from .markup import (
    LONGEST_CELL,
    ago,
    exact,
    status_word,
)
from .overview_errors import LONGEST_REASON, ErrorTables
from .overview_links import LONGEST_PROBLEM, Table
from .overview_words import both, capped, kept_for, name_of_task, paused
from .overview_workers import WorkerTable
from .sites import databases

MOST_SCHEDULES = 20
MOST_ENTRIES = 20
MOST_NAMES = 3  # of workers, in a row of a queue
CHARTS = (ended_jobs, waiting_times, run_times)
KINDS = dict(WaitingFor.choices)
PERIOD_NAMES = {
    "hour": _("The last hour"),
    "day": _("The last day"),
    "week": _("The last week"),
}


def overview_context(request, admin_site) -> dict[str, Any]:
    """Return the template context; of what a user may not view it says nothing."""
    database = Job.objects.db
    state = status.overview(database)
    shown = OverviewTables(admin_site, request.user, get_token(request))
    groups = failures(database)
    now = database_time(database)
    chosen = request.GET.get("period")
    name = chosen if chosen in PERIODS else "hour"
    period = PERIODS[name]
    narrowed = {key: filter_of(request, key) for key in ("task", "queue_name")}
    sums = figures(database, period, **narrowed)
    history = History(sums.spans, period, versions(database, period))
    tables = [
        shown.queues(state, status.living_workers(database)),
        shown.errors(groups),
        shown.muted(groups),
        shown.tasks(sums.tasks),
        shown.workers(state),
        shown.schedules(database),
        shown.waiting(state),
        shown.audit(database),
    ]
    return {
        "problems": [shown.remark(each) for each in state.remarks],
        "dead_letters": list(shown.dead_letters(state)),
        "finished": list(shown.finished(state)),
        "charts": [draw(history) for draw in CHARTS],
        "versions": [(exact(at), version) for at, version in history.marks],
        "narrowed": [value for value in narrowed.values() if value],
        "periods": [
            (key, title, address(key, narrowed), key == name)
            for key, title in PERIOD_NAMES.items()
        ],
        "tables": [table for table in tables if table is not None],
        "looked_at": exact(now),
        "behind": replica_age(database),
        "databases": databases(request, admin_site),
    }


def filter_of(request, key: str) -> str | None:
    """Return what the page is narrowed to, unless no name can be so."""
    try:
        return checked(request.GET.get(key, "")) or None
    except InvalidFilter:
        return None


def address(period: str, narrowed: dict[str, str | None]) -> str:
    """Return the query of the page for a period."""
    chosen = {key: value for key, value in narrowed.items() if value}
    return f"?{urlencode({'period': period, **chosen})}"


class OverviewTables(ErrorTables, WorkerTable):
    """Writes the tables for one user of one site."""

    def queues(self, state: status.Overview, workers: list[Worker]) -> Table:
        columns = (
            _("Queue"),
            _("Oldest ready job"),
            *(each.label for each in map(Status, status.LIVE)),
            _("Limit"),
            _("Served by"),
            _("State"),
        )
        rows = [self.queue_row(queue, workers) for queue in state.queues]
        return Table(_("Queues"), columns, rows, _("No unfinished jobs."))

    def queue_row(self, queue: status.QueueStatus, workers) -> tuple[Any, ...]:
        counts = (self.count(queue, each) for each in map(str, status.LIVE))
        serving = [each for each in workers if each.serves(queue.name)]
        return (
            self.link("queue", queue.id, excerpt(queue.name, LONGEST_CELL)),
            seconds_in_words(queue.oldest_ready_seconds),
            *counts,
            queue.max_running or "",
            self.names_of(serving),
            paused(queue),
        )

    def count(self, queue: status.QueueStatus, status: str) -> Any:
        if not getattr(queue, status.lower()):
            return ""
        number = queue.shown(status.lower())
        return self.list_link("job", number, queue_name=queue.name, status=status)

    def names_of(self, workers: list[Worker]) -> Any:
        if not workers:
            return status_word("failed", gettext("no worker"))
        links = [
            (self.link("worker", each.pk, excerpt(each.name, LONGEST_CELL)),)
            for each in workers[:MOST_NAMES]
        ]
        names = format_html_join(", ", "{}", links)
        hidden = len(workers) - len(links)
        if not hidden:
            return names
        more = gettext("and %(number)d more") % {"number": hidden}
        return format_html("{} {}", names, more)

    def audit(self, database: str) -> Table | None:
        """Return the latest acts of people."""
        if not self.may_view("auditentry"):
            return None
        columns = (
            _("Time"),
            _("Who"),
            _("Act"),
            _("How many"),
            _("Chosen by"),
            _("Note"),
        )
        latest = AuditEntry.objects.using(database).order_by("-at")[:MOST_ENTRIES]
        rows = [
            (
                ago(each.at),
                f"{excerpt(each.actor, LONGEST_CELL)} ({each.get_via_display()})",
                act_in_words(each),
                gettext("unfinished") if each.number is None else f"{each.number:,}",
                excerpt(each.chosen, LONGEST_REASON),
                excerpt(each.note, LONGEST_REASON),
            )
            for each in latest
        ]
        return Table(_("What people did"), columns, rows, _("Nothing yet."))

    def tasks(self, found: list[Sums]) -> Table:
        columns = (
            _("Task"),
            _("Ended"),
            _("Failed"),
            _("Attempts repeated"),
            _("Ran (half, 95 %)"),
            _("Waited (half, 95 %)"),
        )
        rows = [
            (
                self.list_link("job", name_of_task(each.key), task=each.key),
                chart_link(each.ended, task=each.key),
                f"{each.failed:,} ({each.failure_rate:.0%})" if each.failed else "",
                f"{each.retried:,}" if each.retried else "",
                both(each.run_time(0.5), each.run_time(0.95)),
                both(each.wait_time(0.5), each.wait_time(0.95)),
            )
            for each in found
        ]
        return Table(_("Tasks of this time"), columns, rows, _("No job has ended."))

    def schedules(self, database: str) -> Table | None:
        """Return the schedules that are late, broken, or whose last run failed."""
        if not self.may_view("schedule"):
            return None
        late = Q(next_run_at__lt=database_time(database) - PATIENCE)
        failed = Q(last_job__status=Status.FAILED)
        found = Schedule.objects.active().filter(late | failed | ~Q(error=""))
        found = found.annotate(last_status=F("last_job__status")).order_by("name")
        rows = [
            (
                self.link("schedule", each.pk, excerpt(each.name, LONGEST_CELL)),
                ago(each.next_run_at),
                self.last_run(each),
                excerpt(each.error, LONGEST_PROBLEM),
            )
            for each in found[:MOST_SCHEDULES]
        ]
        columns = (_("Schedule"), _("Next run"), _("Last run"), _("Error"))
        title = _("Schedules that are late or failed")
        return Table(title, columns, rows, _("None."))

    def last_run(self, schedule) -> Any:
        if schedule.last_status is None:
            return ""
        label = Status(schedule.last_status).label
        word = status_word(schedule.last_status.lower(), label)
        return self.link("job", schedule.last_job_id, word)

    def waiting(self, state: status.Overview) -> Table | None:
        rows = [
            (
                KINDS.get(each.kind, each.kind),
                self.key(each),
                each.number,
                excerpt(each.first, LONGEST_REASON),
            )
            for each in state.waiting
        ]
        columns = (_("Jobs that wait for"), _("Key"), _("Jobs"), _("The first"))
        return Table(_("Waiting"), columns, rows, "") if rows else None

    def key(self, waiting: status.WaitingStatus) -> str:
        """Return the key if the user may see arguments: keys are made of them."""
        may_see = self.user.has_perm("pgjobs.view_job_arguments")
        return excerpt(waiting.key, LONGEST_CELL) if may_see else ""

    def dead_letters(self, state: status.Overview) -> Iterator[str]:
        if not self.may_view("event"):
            return
        if number := state.events["dead"]:
            text = ngettext("%(number)s dead letter", "%(number)s dead letters", number)
            text %= {"number": capped(number)}
            yield self.list_link("event", text, state="DEAD")
        if number := state.events["unhandled"]:
            text = ngettext(
                "%(number)s unhandled event", "%(number)s unhandled events", number
            )
            text %= {"number": capped(number)}
            yield self.list_link("event", text, state="UNHANDLED")

    def finished(self, state: status.Overview) -> Iterator[str]:
        for name, number in state.finished.items():
            word = number_and_status(capped(number), name) + kept_for(name)
            yield self.list_link("job", word, status=name)


def chart_link(number: int, **narrowed: str) -> str:
    """Return a number that leads to the charts of a task."""
    return format_html('<a href="?{}">{}</a>', urlencode(narrowed), f"{number:,}")
