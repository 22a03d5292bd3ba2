"""The admin of workers that ended within a day: how, and when."""

from datetime import timedelta

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from ...admin.listing import ReadOnlyAdmin
from ...admin.markup import LONGEST_CELL, ago, full, lasting, moment, short, status_word
from ...base.moments import instant
from ...models.worker import described
from ...reports.texts import excerpt
from .tables import End, EndedWorker

COLOURS = {End.LOST: "lost", End.MEMORY: "late"}


@admin.register(EndedWorker)
class EndedWorkerAdmin(ReadOnlyAdmin):
    """Workers that ended; who may view workers may view these."""

    list_display = (
        "short_name",
        "end_word",
        "ended_ago",
        "lived",
        "queue_names",
        "short_host",
        "process_id",
        "short_version",
    )
    list_display_links = ("short_name",)
    list_filter = ("how",)
    ordering = ("-ended_at", "-id")
    fields = (
        "full_name",
        "end_word",
        "started",
        "ended",
        "lived",
        "queue_names",
        "short_host",
        "process_id",
        "short_version",
    )
    when_empty = _("No worker has ended within a day.")

    def has_view_permission(self, request, obj=None) -> bool:
        return request.user.has_perm("pgjobs.view_worker")

    has_module_permission = has_view_permission

    def lookup_allowed(self, lookup, value, request=None) -> bool:
        return lookup == "how__exact"

    short_name = short("name", _("name"))
    full_name = full("name", _("name"))
    short_host = short("host", _("host"))
    short_version = short("version", _("version"))
    started = moment("started_at", _("started at"))
    ended = moment("ended_at", _("ended at"))

    @admin.display(description=_("how"))
    def end_word(self, worker: EndedWorker) -> str:
        return end_word(worker)

    @admin.display(description=_("ended at"))
    def ended_ago(self, worker: EndedWorker) -> str:
        return ago(worker.ended_at)

    @admin.display(description=_("after"))
    def lived(self, worker: EndedWorker) -> str:
        age = instant(worker.ended_at) - instant(worker.started_at)
        return lasting(max(age, timedelta(0)))

    @admin.display(description=_("queues"))
    def queue_names(self, worker: EndedWorker) -> str:
        return excerpt(described(worker.queues, worker.excluded), LONGEST_CELL)

    @admin.display(description=_("process id"))
    def process_id(self, worker: EndedWorker) -> str:
        return str(worker.pid)


def end_word(worker: EndedWorker) -> str:
    """Return in a word how a worker ended, in the colour of its kind."""
    return status_word(COLOURS.get(worker.how, "ended"), worker.get_how_display())
