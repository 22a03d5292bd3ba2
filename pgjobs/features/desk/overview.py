"""The overview: what needs attention, and how queues, workers and features are.

It reads finished jobs by an index alone, and only up to a fixed number of them.

It shows workers with what they run, and the errors of failed jobs with what can be
done to all jobs of one.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django.apps import apps
from django.core.exceptions import PermissionDenied
from django.middleware.csrf import get_token
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from ...admin.acts import DELETE, RETRY
from ...admin.links import list_url, number_and_status
from ...admin.markup import (
    LONGEST_CELL,
    ago,
    breakable,
    exact,
    size,
    status_and_note,
    status_word,
)
from ...admin.sites import databases
from ...admin.workers import Health
from ...conf import settings
from ...models.audit_entry import AuditEntry
from ...models.job import Job
from ...models.job_choices import Status, WaitingFor
from ...models.worker import STOP, Worker
from ...reports import status
from ...reports.durations import seconds_in_words
from ...reports.job_filters import InvalidFilter, checked
from ...reports.reading import rows_of, without_jit
from ...reports.secrets import TEXT_MASK
from ...reports.texts import excerpt
from .. import entries
from .charts import History, about, ended_jobs, run_times, sparkline, waiting_times
from .errors import MOST_COUNTED, Failures, failures
from .figures import PERIODS, Sums, figures, versions
from .job_filters import NO_EXCEPTION
from .links import Links, Table, name_of_task
from .replica import replica_age
from .strip import numbers
from .tables import EndedWorker

MOST_JOBS = 3  # of a worker
LONGEST_REASON = 120
ACTS_TEMPLATE = "admin/pgjobs/acts_on_errors.html"
MOST_ENTRIES = 5
MOST_NAMES = 3  # of workers, in a row of a queue
CHARTS = (ended_jobs, waiting_times, run_times)
KINDS = dict(WaitingFor.choices)
PERIOD_NAMES = {
    "hour": _("The last hour"),
    "day": _("The last day"),
    "week": _("The last week"),
}


class RunningNow(NamedTuple):
    id: int
    task: str
    since: datetime | None  # None if SQL has written the row so


def running_jobs(database: str, workers: Iterable[int]) -> dict[int, list[RunningNow]]:
    """Return some jobs of each worker: those that began first."""
    found: dict[int, list[RunningNow]] = {}
    limits = {"workers": list(workers), "most": MOST_JOBS}
    for worker, *job in rows_of(database, "running_jobs", limits):
        found.setdefault(worker, []).append(RunningNow(*job))
    return found


class WorkerTable(Links):
    def workers(self, state: status.Overview) -> Table | None:
        if not self.may_view("worker"):
            return None
        columns = (
            _("Worker"),
            _("State"),
            _("Running"),
            _("What it runs now"),
            _("Memory"),
            _("Queues"),
        )
        ids = [worker.id for worker in state.workers]
        now = running_jobs(Job.objects.db, ids)
        rows = [
            (
                self.link("worker", worker.id, excerpt(worker.name, LONGEST_CELL)),
                health(worker),
                self.list_link("job", slots(worker), worker=worker.id),
                self.runs(now.get(worker.id, []), worker.running),
                size(worker.memory),
                excerpt(worker.queues, LONGEST_CELL),
            )
            for worker in sorted(state.workers, key=urgency_of_worker)
        ]
        otherwise = _("No worker is alive. Start one with: manage.py runjobs")
        url = self.list_of("worker")
        title, ended = _("Workers"), self.ended()
        return Table(title, columns, rows, otherwise, ended, url, name="workers")

    def ended(self) -> str:
        """Return a link to the workers that ended within a day."""
        number = EndedWorker.objects.using(Job.objects.db).count()
        text = ngettext(
            "%(number)d worker ended within a day",
            "%(number)d workers ended within a day",
            number,
        )
        if not number:
            return ""
        url = list_url("endedworker", self.site)
        return format_html('<a href="{}">{}</a>', url, text % {"number": number})

    def runs(self, jobs: list[RunningNow], number: int) -> str:
        """Return which jobs a worker runs, and since when."""
        lines = [self.run(job) for job in jobs]
        if number > len(jobs):
            more = gettext("and %(number)d more")
            lines.append(more % {"number": number - len(jobs)})
        return format_html_join("", "<div>{}</div>", ((line,) for line in lines))

    def run(self, job: RunningNow) -> str:
        name = name_of_task(f"{job.task} #{job.id}")
        return format_html("{} {}", self.link("job", job.id, name), ago(job.since))


def urgency_of_worker(worker: status.WorkerStatus) -> tuple[bool, int]:
    """Return a key for sorting: those that are lost come first, then the busy ones."""
    return worker.is_alive, -worker.running


def urgency_of_queue(queue: status.QueueStatus) -> tuple[bool, float]:
    """Return a key for sorting: paused queues come first, then the latest ones."""
    return queue.paused_seconds is None, -(queue.oldest_ready_seconds or 0)


def health(worker: status.WorkerStatus) -> str:
    silence = seconds_in_words(max(worker.heartbeat_seconds, 0))
    beat = gettext("last sign of life %(time)s ago") % {"time": silence}
    if worker.is_alive and worker.wanted:
        word = Health("STOPPING" if worker.wanted == STOP else "QUIET")
        return status_word(word.value.lower(), word.label, beat)
    if worker.is_alive:
        return status_word("alive", gettext("Alive"), beat)
    return status_word("lost", gettext("Lost"), beat)


def slots(worker: status.WorkerStatus) -> str:
    values = {"running": worker.running, "slots": worker.slots}
    return gettext("%(running)d of %(slots)d slots") % values


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
        title = _("Errors (latest 10,000 failures)")
        url = self.list_of("job", status=Status.FAILED)
        none = _("No failed jobs.")
        return Table(title, columns, rows, none, url=url, name="errors")

    def error_row(self, group: Failures) -> tuple[Any, ...]:
        kind, filters = group.kind, filters_of(group)
        name = excerpt(group.exception_class, LONGEST_CELL)
        where = self.list_link("job", name_of_task(group.task), task=group.task)
        if kind is not None:
            where = status_and_note(where, breakable(excerpt(kind.place, LONGEST_CELL)))
        return (
            status_and_note(
                self.list_link(
                    "job", breakable(name) or gettext("No exception"), **filters
                ),
                excerpt(group.reason, LONGEST_REASON),
            ),
            where,
            self.list_link("job", number_of(group), **filters),
            sparkline(group.by_hour),
            ago(kind.first_at) if kind else "",
            ago(group.last_at),
            self.acts_on(group),
        )

    def acts_on(self, group: Failures) -> str:
        """Return buttons that lead to the confirmation for all jobs of a group."""
        offered = [
            each
            for each in (RETRY, DELETE)
            if self.user.has_perm(f"pgjobs.{each.permission}_job")
        ]
        context = {
            "url": list_url("job", self.site, **filters_of(group)),
            "acts": offered,
            "job": str(group.last_id),
            "token": self.token,
            "mute": self.mute(group),
        }
        return render_to_string(ACTS_TEMPLATE, context)

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
                self.list_link(
                    "job",
                    excerpt(group.exception_class, LONGEST_CELL),
                    **filters_of(group),
                ),
                self.list_link("job", name_of_task(group.task), task=group.task),
                self.list_link("job", number_of(group), **filters_of(group)),
                excerpt(group.kind.muted_version or gettext("any"), LONGEST_CELL),
                self.mute(group),
            )
            for group in groups
            if group.kind is not None and group.is_muted
        ]
        return Table(_("Muted errors"), columns, rows, "") if rows else None


def filters_of(group: Failures) -> dict[str, Any]:
    """Return the filters of the list that shows the jobs of a group."""
    if group.kind is not None:
        return {"status": Status.FAILED, "group": group.kind.pk}
    return {"status": Status.FAILED, "task": group.task, "error": NO_EXCEPTION}


def number_of(group: Failures) -> str:
    """Return how many jobs of a group are FAILED, as far as they are counted."""
    number = group.number if group.failed_now is None else group.failed_now
    return f"{MOST_COUNTED:,}+" if number > MOST_COUNTED else f"{number:,}"


def overview_view(request, admin):
    if not admin.has_view_permission(request):
        raise PermissionDenied
    with without_jit(Job.objects.db):
        context = overview_context(request, admin.admin_site)
    template = "admin/pgjobs/overview.html"
    return admin.page(request, template, gettext("Overview"), context)


def overview_context(request, admin_site) -> dict[str, Any]:
    """Return the template context; of what a user may not view it says nothing."""
    database = Job.objects.db
    seen = status.seen_in(database)
    state = status.overview(database, seen)
    shown = OverviewTables(admin_site, request.user, get_token(request))
    groups = failures(database)
    name = request.GET.get("period")
    name = name if name in PERIODS else "hour"
    period = PERIODS[name]
    narrowed = {key: filter_of(request, key) for key in ("task", "queue_name")}
    sums = figures(database, period, **narrowed, now=seen.now)
    history = History(sums.spans, period, versions(database, period))
    is_hour = name == "hour" and not any(narrowed.values())
    hour = sums if is_hour else figures(database, PERIODS["hour"], now=seen.now)
    first = [*made_by("OVERVIEW_FIRST", shown)]
    above = [
        shown.errors(groups),
        shown.muted(groups),
        shown.queues(state, seen.alive),
    ]
    below = [
        shown.tasks(sums.tasks),
        shown.workers(state),
        *made_by("OVERVIEW_TABLES", shown),
        shown.waiting(state),
        *first,
        shown.audit(database),
    ]
    said = [(each.is_problem, shown.problem(each)) for each in state.remarks]
    return {
        "problems": [each for is_problem, each in said if is_problem],
        "remarks": [each for is_problem, each in said if not is_problem],
        "dead_letters": [*made_by("OVERVIEW_LINKS", shown)],
        "strip": numbers(shown, state, hour.spans),
        "first": first,
        "finished": list(shown.finished(state)),
        "charts": [draw(history) for draw in CHARTS],
        "versions": [(exact(at), version) for at, version in history.marks],
        "narrowed": [value for value in narrowed.values() if value],
        "periods": [
            (key, title, address(key, narrowed), key == name)
            for key, title in PERIOD_NAMES.items()
        ],
        "above": [table for table in above if table is not None],
        "below": [table for table in below if table is not None],
        "looked_at": exact(seen.now),
        "behind": replica_age(database),
        "databases": databases(request, admin_site),
    }


def made_by(name: str, shown: Links) -> Iterator[Any]:
    """Yield what features add to a part of the page."""
    return (each for made in entries("admin", name) for each in made(shown))


def filter_of(request, key: str) -> str | None:
    """Return what the page is narrowed to, unless no name can be so."""
    try:
        return checked(request.GET.get(key, "")) or None
    except InvalidFilter:
        return None


def address(period: str, narrowed: dict[str, str | None]) -> str:
    """Return the query of the page for a period."""
    filters = {key: value for key, value in narrowed.items() if value}
    return f"?{urlencode({'period': period, **filters})}"


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
        queues = sorted(state.queues, key=urgency_of_queue)
        rows = [self.queue_row(queue, workers) for queue in queues]
        none, url = _("No unfinished jobs."), self.list_of("queue")
        return Table(_("Queues"), columns, rows, none, url=url, name="queues")

    def queue_row(self, queue: status.QueueStatus, workers) -> tuple[Any, ...]:
        counts = (self.count(queue, each) for each in map(str, status.LIVE))
        serving = [worker for worker in workers if worker.serves(queue.name)]
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
            (self.link("worker", worker.pk, excerpt(worker.name, LONGEST_CELL)),)
            for worker in workers[:MOST_NAMES]
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
                self.link("auditentry", each.pk, act_in_words(each)),
                gettext("unfinished") if each.number is None else f"{each.number:,}",
                excerpt(each.chosen, LONGEST_REASON),
                excerpt(each.note, LONGEST_REASON),
            )
            for each in latest
        ]
        url = list_url("auditentry", self.site)
        title, none = _("Activity"), _("Nothing yet.")
        return Table(title, columns, rows, none, url=url, name="activity")

    def tasks(self, found: list[Sums]) -> Table:
        columns = (
            _("Task"),
            _("Ended"),
            _("Failed"),
            _("Attempts repeated"),
            _("Run time (p50, p95)"),
            _("Waiting time (p50, p95)"),
        )
        rows = [
            (
                self.list_link("job", name_of_task(each.key), task=each.key),
                chart_link(each.ended, task=each.key),
                self.failed(each),
                f"{each.retried:,}" if each.retried else "",
                both(each.run_time(0.5), each.run_time(0.95)),
                both(each.wait_time(0.5), each.wait_time(0.95)),
            )
            for each in sorted(found, key=lambda sums: -sums.failed)
        ]
        none, url = _("No job has ended."), self.list_of("taskdefinition")
        return Table(_("Tasks in this period"), columns, rows, none, url=url)

    def failed(self, sums: Sums) -> str:
        """Return how many jobs of a task failed, as a link to those."""
        if not sums.failed:
            return ""
        text = f"{sums.failed:,} ({sums.failure_rate:.0%})"
        return self.list_link("job", text, task=sums.key, status=Status.FAILED)

    def waiting(self, state: status.Overview) -> Table | None:
        rows = [
            (
                self.waiting_link(each, KINDS.get(each.kind, each.kind)),
                self.waiting_link(each, self.key(each)),
                self.waiting_link(each, f"{each.number:,}"),
                self.link(
                    "job",
                    each.blocker_id or each.first_id,
                    excerpt(each.first, LONGEST_REASON),
                ),
            )
            for each in sorted(state.waiting, key=lambda each: -each.number)
        ]
        url = self.list_of("job", status=Status.WAITING)
        columns = (_("Jobs that wait for"), _("Key"), _("Jobs"), _("The first"))
        return Table(_("Waiting"), columns, rows, "", url=url) if rows else None

    def waiting_link(self, waiting: status.WaitingStatus, text: str) -> str:
        """Return a link to jobs that wait: to those of a lock, if they can be found.

        A search would find nothing by a key of which a part is masked or cut.
        """
        filters: dict[str, Any] = {"status": Status.WAITING}
        key = self.key(waiting)
        is_whole = key == waiting.key != "" and '"' not in key
        if waiting.kind == "lock" and is_whole and TEXT_MASK not in key:
            filters["q"] = f'lock:"{key}"'
        return self.list_link("job", text, **filters) if text else ""

    def key(self, waiting: status.WaitingStatus) -> str:
        """Return the key if the user may see arguments: keys are made of them."""
        may_see = self.user.has_perm("pgjobs.view_job_arguments")
        return excerpt(waiting.key, LONGEST_CELL) if may_see else ""

    def finished(self, state: status.Overview) -> Iterator[str]:
        for name, number in state.finished.items():
            word = number_and_status(status.capped(number), name) + kept_for(name)
            yield self.list_link("job", word, status=name)


def chart_link(number: int, **narrowed: str) -> str:
    """Return a number that leads to the charts of a task."""
    return format_html('<a href="?{}">{}</a>', urlencode(narrowed), f"{number:,}")


def paused(queue: status.QueueStatus) -> str:
    if queue.paused_seconds is None:
        return excerpt(queue.note, LONGEST_CELL)
    text = gettext("for %(time)s")
    if queue.paused_by:
        text = gettext("for %(time)s by %(person)s")
    since = text % {
        "time": seconds_in_words(queue.paused_seconds),
        "person": excerpt(queue.paused_by, LONGEST_CELL),
    }
    note = f"{since}. {excerpt(queue.note, LONGEST_CELL)}" if queue.note else since
    return status_word("waiting", gettext("Paused"), note)


def kept_for(status: str) -> str:
    """Return how long jobs are kept after their end, unless it is for ever."""
    retention = settings.RETENTION[status]
    text = gettext(" (kept for %(time)s)")
    return text % {"time": seconds_in_words(retention)} if retention else ""


def both(half: float | None, most: float | None) -> str:
    if half is None:
        return ""
    return f"{about(half)}, {about(most)}"


# Entries of the audit trail, in the reader's language


# The database holds the key. An act that is missing here is shown as it is stored.
ACTS: dict[str, Any] = {
    "acknowledge": pgettext_lazy("audit trail", "acknowledge"),
    "add": pgettext_lazy("audit trail", "add"),
    "answer": pgettext_lazy("audit trail", "answer"),
    "cancel": pgettext_lazy("audit trail", "cancel"),
    "change": pgettext_lazy("audit trail", "change"),
    "delete": pgettext_lazy("audit trail", "delete"),
    "end": pgettext_lazy("audit trail", "end"),
    "enqueue": pgettext_lazy("audit trail", "enqueue"),
    "export": pgettext_lazy("audit trail", "export"),
    "fail": pgettext_lazy("audit trail", "fail"),
    "go_on": pgettext_lazy("audit trail", "go on"),
    "import": pgettext_lazy("audit trail", "import"),
    "lift": pgettext_lazy("audit trail", "lift"),
    "limit": pgettext_lazy("audit trail", "limit"),
    "mark_step": pgettext_lazy("audit trail", "mark step"),
    "move": pgettext_lazy("audit trail", "move"),
    "mute": pgettext_lazy("audit trail", "mute"),
    "override": pgettext_lazy("audit trail", "change at run time"),
    "pause": pgettext_lazy("audit trail", "pause"),
    "prune": pgettext_lazy("audit trail", "prune"),
    "redeliver": pgettext_lazy("audit trail", "redeliver"),
    "redeliver_all": pgettext_lazy("audit trail", "redeliver to all"),
    "read": pgettext_lazy("audit trail", "read"),
    "reencrypt": pgettext_lazy("audit trail", "re-encrypt"),
    "replay": pgettext_lazy("audit trail", "replay"),
    "resume": pgettext_lazy("audit trail", "resume"),
    "quiet": pgettext_lazy("audit trail", "quiet"),
    "retry": pgettext_lazy("audit trail", "retry"),
    "run": pgettext_lazy("audit trail", "run"),
    "run_again": pgettext_lazy("audit trail", "run again"),
    "run_now": pgettext_lazy("audit trail", "run now"),
    "stop": pgettext_lazy("audit trail", "stop"),
    "succeed": pgettext_lazy("audit trail", "succeed"),
    "unmute": pgettext_lazy("audit trail", "unmute"),
}


def act_in_words(entry: AuditEntry) -> str:
    """Say what was done to what, such as "retry job #4"."""
    values = {
        "act": ACTS.get(entry.act, entry.act),
        "model": name_of_model(entry.model),
        "id": entry.object_id,
    }
    if entry.model == "override":  # `chosen` has the name of the task or key
        return str(values["act"])
    if entry.object_id is None:
        return gettext("%(act)s %(model)s") % values
    return gettext("%(act)s %(model)s #%(id)s") % values


def name_of_model(name: str) -> Any:
    try:
        return apps.get_model("pgjobs", name)._meta.verbose_name
    except LookupError:  # only SQL could store it
        return name
