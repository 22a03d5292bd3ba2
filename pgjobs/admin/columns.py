"""What the list and the page show of a job's columns."""

from django.contrib import admin
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..exceptions import UnknownTask
from ..models import Job, Status
from ..tasks.task import registry
from .links import page
from .listing import TableAdmin
from .markup import (
    LONGEST_CELL,
    full,
    preformatted,
    short,
    shown,
    status_and_note,
    status_word,
)
from .texts import excerpt

LONGEST_REASON = 2_000

# What happened to a job of this status last, or will happen next, and when.
LATEST = {
    Status.READY: (_("enqueued"), "enqueued_at"),
    Status.WAITING: (_("enqueued"), "enqueued_at"),
    Status.SCHEDULED: (_("due"), "run_after"),
    Status.RUNNING: (_("started"), "last_attempted_at"),
    Status.SUCCESSFUL: (_("finished"), "finished_at"),
    Status.FAILED: (_("failed"), "finished_at"),
    Status.CANCELLED: (_("cancelled"), "finished_at"),
}


def obstacle_of(job: Job) -> str:
    """Return what a waiting job waits for, if it was looked up."""
    return getattr(job, "obstacle", "")


class JobColumns(TableAdmin):
    """Methods for `list_display` and `fieldsets`. None of them reads the database."""

    # Methods rather than fields: a list can be sorted by a field, and to sort by these
    # the database would have to read all jobs.
    task_name = short("task", _("task"))
    queue = short("queue_name", _("queue"))
    full_unique_key = full("unique_key", _("unique key"))

    @admin.display(description=_("task"))
    def task_and_state(self, job: Job) -> str:
        name = excerpt(job.task, 2 * LONGEST_CELL)
        try:
            registry.get(job.task)
        except UnknownTask:
            note = gettext("no task of this name is known here")
            return format_html('{} <span class="quiet">({})</span>', name, note)
        return name

    @admin.display(description=_("status"))
    def status_word(self, job: Job) -> str:
        asked = job.status == Status.RUNNING and job.cancel_requested_at
        note = gettext("asked to cancel") if asked else ""
        return status_word(job.status.lower(), job.get_status_display(), note)

    @admin.display(description=_("status"))
    def status_and_reason(self, job: Job) -> str:
        reason = excerpt(obstacle_of(job) or job.reason_start, LONGEST_CELL)
        if not reason:
            return self.status_word(job)
        return status_and_note(self.status_word(job), reason)

    @admin.display(description=_("latest"))
    def latest(self, job: Job) -> str:
        word, column = LATEST[job.status]
        return f"{word} {shown(getattr(job, column))}"

    @admin.display(description=_("reason"))
    def full_reason(self, job: Job) -> str:
        reason = obstacle_of(job) or job.reason_start
        if not reason:
            return self.get_empty_value_display()
        return preformatted(reason, LONGEST_REASON)

    @admin.display(description=_("holds the unique key"), boolean=True)
    def holds_key(self, job: Job) -> bool | None:
        return job.holds_key

    @admin.display(description=_("batch"))
    def batch_link(self, job: Job) -> str:
        if job.batch_id is None:
            return self.get_empty_value_display()
        url = page("batch", job.batch_id, self.admin_site)
        return format_html('<a href="{}">#{}</a>', url, str(job.batch_id))

    @admin.display(description=_("worker"))
    def worker_link(self, job: Job) -> str:
        if job.worker_id is None:
            return self.get_empty_value_display()
        if job.worker is None:
            return gettext("worker %(id)s, which is gone") % {"id": job.worker_id}
        url = page("worker", job.worker_id, self.admin_site)
        name = excerpt(job.worker.name, LONGEST_CELL)
        return format_html('<a href="{}">{}</a>', url, name)
