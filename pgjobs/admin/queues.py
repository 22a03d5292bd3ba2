"""The admin of queues: how full they are, and acts that pause or limit them."""

from collections.abc import Callable

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from ..models.job import Job
from ..models.queue import Queue, QueueQuerySet
from ..queue.acts import Changed
from ..reports.durations import seconds_in_words
from ..reports.pauses import with_person
from ..reports.status import (
    LIVE,
    QueueStatus,
    database_time,
    living_workers,
    queue_statuses,
)
from ..reports.texts import excerpt
from .acting import ActingAdmin, permitted
from .acts import Act
from .forms import NoteForm
from .links import links_by_status
from .markup import LONGEST_CELL, ago, short, status_word


def counting(change: Callable[..., int]) -> Callable[..., Changed]:
    """Return the act made of a method that returns how many rows it changed."""

    def run(rows) -> Changed:
        number = rows.count()
        changed = change(rows)
        return Changed(changed, number - changed)

    return run


def pause(queues, note: str) -> Changed:
    """Pause queues. An empty note keeps the old one."""
    changed = queues.filter(paused_at=None)
    ids = list(changed.values_list("pk", flat=True))
    outcome = counting(QueueQuerySet.pause)(queues)
    if note:
        Queue.objects.filter(pk__in=ids).update(note=note)
    return outcome


PAUSE = Act(
    verb="pause",
    permission="pause",
    run=pause,
    form=NoteForm,
    is_offered=lambda queue: queue.paused_at is None,
    label=_("Pause"),
    bulk_label=_("Pause selected queues"),
    effect=_(
        "Workers start none of its jobs until the queue is resumed. Jobs can still be "
        "enqueued."
    ),
    effect_on_running=_("Running jobs go on until they end."),
    done=ngettext_lazy("%(name)s is paused.", "%(name)s are paused.", "count"),
    unchanged=_("%(name)s was paused already."),
)
RESUME = Act(
    verb="resume",
    permission="pause",
    run=counting(QueueQuerySet.resume),
    is_offered=lambda queue: queue.paused_at is not None,
    label=_("Resume"),
    bulk_label=_("Resume selected queues"),
    effect=_("Workers start its jobs again."),
    done=ngettext_lazy("%(name)s is resumed.", "%(name)s are resumed.", "count"),
    unchanged=_("%(name)s was not paused."),
)


@admin.register(Queue)
class QueueAdmin(ActingAdmin):
    """Queues. Workers make the row of a queue when they claim its first job."""

    list_display = (
        "short_name",
        "state",
        "oldest_ready",
        "jobs",
        "limit",
        "served_by",
        "short_note",
    )
    list_display_links = ("short_name",)
    when_empty = _("A queue appears here when a worker claims its first job.")
    ordering = ("name",)
    search_fields = ("name",)
    fields = ("name", "state", "jobs", "max_running", "note")
    acts = bulk_acts = (PAUSE, RESUME)

    has_pause_permission = permitted("pause_queue")

    def has_delete_permission(self, request, obj=None) -> bool:
        # A worker would make the row of a queue with jobs again, without its limit.
        is_used = obj is not None and any(
            getattr(obj.counts, str(status).lower()) for status in LIVE
        )
        return super().has_delete_permission(request, obj) and not is_used

    # Pages

    def get_queryset(self, request):
        return with_person(super().get_queryset(request))

    def get_fields(self, request, obj=None):
        return self.fields if obj else ("name", "max_running", "note")

    def get_readonly_fields(self, request, obj=None):
        return ("name", "state", "jobs") if obj else ()

    def look_up(self, request, rows):
        add_counts(rows)

    def preview(self, act, row):
        shown = {"status": state_of(row), "running": row.counts.running}
        return super().preview(act, row) | shown

    # Columns

    short_name = short("name", _("name"))
    short_note = short("note", _("note"))

    @admin.display(description=_("state"))
    def state(self, queue: Queue) -> str:
        if queue.paused_at is None:
            return status_word("ready", state_of(queue))
        since = ago(queue.paused_at)
        if queue.paused_by:
            person = excerpt(queue.paused_by, LONGEST_CELL)
            since = format_html(
                gettext("{time} by {person}"), time=since, person=person
            )
        return status_word("waiting", state_of(queue), since)

    @admin.display(description=_("jobs"))
    def jobs(self, queue: Queue) -> str:
        """Show how many jobs there are of each status, as links to their lists."""
        links = links_by_status(
            self.admin_site, queue.counts, LIVE, queue_name=queue.name
        )
        return links or self.get_empty_value_display()

    @admin.display(description=_("oldest ready job"))
    def oldest_ready(self, queue: Queue) -> str:
        age = seconds_in_words(queue.counts.oldest_ready_seconds)
        return age or self.get_empty_value_display()

    @admin.display(description=_("workers"))
    def served_by(self, queue: Queue) -> int:
        return queue.workers

    @admin.display(description=_("limit (running jobs)"), empty_value=_("no limit"))
    def limit(self, queue: Queue) -> int | None:
        return queue.max_running


def state_of(queue: Queue) -> str:
    return gettext("Active") if queue.paused_at is None else gettext("Paused")


def add_counts(queues: list[Queue]) -> None:
    """Set how many unfinished jobs each queue has, by a few queries for all."""
    database = Job.objects.db
    names = [queue.name for queue in queues]
    now = database_time(database)
    statuses = {each.name: each for each in queue_statuses(database, now, names)}
    workers = living_workers(database)
    for queue in queues:
        queue.workers = sum(worker.serves(queue.name) for worker in workers)
        queue.counts = statuses.get(queue.name) or QueueStatus(queue.name)
