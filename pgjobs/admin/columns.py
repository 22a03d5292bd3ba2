"""What the list and the page show of a job's columns."""

from django.contrib import admin
from django.db.models import TextField
from django.db.models.functions import Cast
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..base.moments import instant
from ..models.job import Job
from ..models.job_choices import Status
from ..reports.remarks import Remark
from ..reports.secrets import masked_key
from ..reports.task_words import OWN, with_own
from ..reports.texts import block, excerpt
from ..tasks.registry import registry
from ..tasks.sensitive import named_arguments, sensitive_words
from .links import page, page_of_remark
from .listing import TableAdmin
from .markup import (
    LONGEST_CELL,
    ago,
    lasting,
    moment,
    preformatted,
    short,
    status_word,
)

LONGEST_REASON = 2_000
LONGEST_WHY = 200
LONGEST_CALL = 200  # of a row, which cuts it where its room ends

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


# The labels of links that lead to what holds a job back.
LABELS = {
    "queue": _("the queue"),
    "worker": _("workers"),
    "job": _("job %(id)s"),
    "batch": _("batch %(id)s"),
}


def masked_key_of(job: Job, key: str) -> str:
    """Return a key of the job without the values of its masked arguments."""
    texts = {f"{name}_text": Cast(name, TextField()) for name in ("kwargs", "args")}
    texts["own"] = OWN
    row = Job.objects.filter(pk=job.pk).annotate(**texts).values_list(*texts).first()
    if row is None:
        return key
    kwargs, args, own = row
    named = named_arguments(job.task, args)
    return masked_key(key, with_own(sensitive_words(job.task), own), kwargs, named)


class JobColumns(TableAdmin):
    """Methods for `list_display` and `fieldsets`. None of them reads the database."""

    # Methods rather than fields: users can sort a list by a field, and to sort by these
    # the database would have to read all jobs.
    @admin.display(description=_("task"))
    def task_name(self, job: Job) -> str:
        name = excerpt(job.task, LONGEST_CELL)
        shown = excerpt(getattr(job, "shown_arguments", ""), LONGEST_CALL)
        if not shown:
            return format_html('<span title="{}">{}</span>', name, name)
        call = '<span title="{0}({1})">{0}<span class="pgjobs-arguments">({1})</span>'
        return format_html(call + "</span>", name, shown)

    queue = short("queue_name", _("queue"))
    enqueued = moment("enqueued_at", _("enqueued"))
    due = moment("run_after", _("due"))
    expires = moment("expires_at", _("expires"))
    asked_to_cancel = moment("cancel_requested_at", _("asked to cancel"))
    started = moment("started_at", _("first started"))
    last_attempted = moment("last_attempted_at", _("last started"))
    finished = moment("finished_at", _("finished"))

    @admin.display(description=_("unique key"))
    def masked_unique_key(self, job: Job) -> str:
        return block(masked_key_of(job, job.unique_key), LONGEST_REASON)

    @admin.display(description=_("task"))
    def task_and_state(self, job: Job) -> str:
        name = excerpt(job.task, 2 * LONGEST_CELL)
        if url := getattr(job, "task_url", None):  # if the user may see it
            name = format_html('<a href="{}">{}</a>', url, name)
        if registry.find(job.task) is None:
            note = gettext("no task of this name is known here")
            return format_html('{} <span class="quiet">({})</span>', name, note)
        return name

    @admin.display(description=_("status"))
    def status_word(self, job: Job) -> str:
        asked = job.status == Status.RUNNING and job.cancel_requested_at
        text = gettext("asked to cancel {time}")
        note = format_html(text, time=ago(job.cancel_requested_at)) if asked else ""
        return status_word(job.status.lower(), job.get_status_display(), note)

    @admin.display(description=_("status"))
    def state(self, job: Job) -> str:
        return status_word(job.status.lower(), job.get_status_display())

    @admin.display(description=_("reason"))
    def short_reason(self, job: Job) -> str:
        """Show on one line why a job does not run, how it runs or how it ended."""
        if job.why:
            return self.short_why(job.why)
        if job.status == Status.RUNNING:
            return self.run(job)
        reason = excerpt(job.reason_start, LONGEST_CALL) or self.took(job)
        return format_html('<span title="{}">{}</span>', reason, reason)

    def short_why(self, why: Remark) -> str:
        text, url = excerpt(why.text, LONGEST_WHY), page_of_remark(why, self.admin_site)
        link = (
            '<a href="{}" title="{}">{}</a>' if url else '<span{} title="{}">{}</span>'
        )
        return format_html(link, url, text, text)

    @admin.display(description=_("why it does not run"))
    def why(self, job: Job) -> str:
        return self.why_link(job.why)

    def why_link(self, why: Remark) -> str:
        text = excerpt(why.text, LONGEST_WHY)
        if not why.model:
            return text
        label = LABELS[why.model] % {"id": why.pk}
        url = page_of_remark(why, self.admin_site)
        return format_html('{} (<a href="{}">{}</a>)', text, url, label)

    @admin.display(description=_("age"), ordering="finished_at")
    def latest(self, job: Job) -> str:
        word, column = LATEST[job.status]
        return ago(getattr(job, column), word)

    def run(self, job: Job) -> str:
        """Return how far a job is, who asked it to stop, and which worker runs it."""
        asked = job.cancel_requested_at and gettext("asked to cancel")
        worker = format_html(gettext("on {worker}"), worker=self.worker_link(job))
        parts = (asked, getattr(job, "progress_bar", None), worker)
        return format_html_join(" · ", "{}", ((part,) for part in parts if part))

    def took(self, job: Job) -> str:
        """Return how long the last attempt of a finished job took."""
        if job.finished_at is None or job.last_attempted_at is None:
            return ""
        took = lasting(instant(job.finished_at) - instant(job.last_attempted_at))
        return gettext("took %(time)s") % {"time": took}

    @admin.display(description=_("attempts"))
    def tries(self, job: Job) -> str:
        text = gettext("%(attempts)d (%(failures)d failed, of %(most)d allowed)")
        return text % {
            "attempts": job.attempts,
            "failures": job.failures,
            "most": job.max_attempts,
        }

    @admin.display(description=_("reason"))
    def full_reason(self, job: Job) -> str:
        if not job.reason_start:
            return self.get_empty_value_display()
        return preformatted(job.reason_start, LONGEST_REASON)

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
