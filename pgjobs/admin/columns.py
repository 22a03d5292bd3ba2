"""What the list and the page show of a job's columns."""

from django.contrib import admin
from django.db.models import TextField
from django.db.models.functions import Cast
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..base.moments import instant
from ..models.job import Job
from ..models.job_choices import Status
from ..reports.json_text import readable
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
    breakable,
    lasting,
    moment,
    preformatted,
    short,
    status_and_note,
    status_word,
)

LONGEST_REASON = 2_000
LONGEST_WHY = 200

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


def on_a_line(text: str, words: tuple[str, ...]) -> str:
    """Return JSON text, secrets masked, on one line and without its outer braces."""
    return " ".join(readable(text, words).split())[1:].removesuffix("}").strip()


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


def short_reason(job: Job) -> str:
    return excerpt(job.reason_start, LONGEST_CELL)


class JobColumns(TableAdmin):
    """Methods for `list_display` and `fieldsets`. None of them reads the database."""

    # Methods rather than fields: users can sort a list by a field, and to sort by these
    # the database would have to read all jobs.
    @admin.display(description=_("task"))
    def task_name(self, job: Job) -> str:
        name = breakable(excerpt(job.task, LONGEST_CELL))
        text = getattr(job, "short_arguments", "{}")
        if text == "{}":
            return name
        shown = on_a_line(text, getattr(job, "sensitive", ()))
        return status_and_note(name, excerpt(shown, LONGEST_CELL))

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
    def status_and_reason(self, job: Job) -> str:
        note = self.why_link(job.why) if job.why else short_reason(job)
        mark = self.status_word(job)
        return status_and_note(mark, note) if note else mark

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

    @admin.display(description=_("latest"), ordering="finished_at")
    def latest(self, job: Job) -> str:
        word, column = LATEST[job.status]
        text = format_html("{} {}", word, ago(getattr(job, column)))
        took = self.run(job) if job.status == Status.RUNNING else self.took(job)
        if not took:
            return text
        return format_html('{}<div class="pgjobs-reason">{}</div>', text, took)

    def run(self, job: Job) -> str:
        """Return which worker runs a job, and how far it is."""
        worker = format_html(gettext("on {worker}"), worker=self.worker_link(job))
        shown = getattr(job, "progress_bar", None)
        return format_html("{}<div>{}</div>", worker, shown) if shown else worker

    def took(self, job: Job) -> str:
        """Return how long the last attempt of a finished job took."""
        if job.finished_at is None or job.last_attempted_at is None:
            return ""
        took = lasting(instant(job.finished_at) - instant(job.last_attempted_at))
        return gettext("after %(time)s") % {"time": took}

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
