"""The admin of batches: their progress, and acts on all of their jobs."""

from dataclasses import replace
from typing import Any

from django.contrib import admin
from django.utils.translation import gettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from ...admin.acting import ActingAdmin, effects_by_status, name_of, permitted
from ...admin.acts import CANCEL, RETRY, UNFINISHED, Act
from ...admin.details import Lineage
from ...admin.filters import IdFilter
from ...admin.links import links_by_status
from ...admin.listing import ReadOnlyAdmin, by_id_or_beginning
from ...admin.markup import full, moment, short, status_word
from ...models.batch import Batch, BatchProgress, progress_of
from ...models.job import Job
from ...models.job_choices import Status
from .family import tree
from .graph import batch_links, graph, job_links


def on_jobs(act: Act, **other) -> Act:
    """Return the act that does to jobs of a batch what `act` does to any job.

    The jobs are those of its statuses.
    """

    def run(batches, **words):
        jobs = Job.objects.filter(batch__in=batches.values("pk"))
        part = jobs.filter(status__in=each.statuses).order_by("pk")
        return act.run(part[: BatchAdmin.most_at_once], **words)

    each = replace(act, run=run, **other)
    return each


CANCEL_JOBS = on_jobs(
    CANCEL,
    statuses=UNFINISHED,
    is_offered=lambda batch: not batch.counts.is_finished,
    done=ngettext_lazy(
        "%(name)s: Cancelled %(count)d job, or asked it to stop.",
        "%(name)s: Cancelled %(count)d jobs, or asked them to stop.",
        "count",
    ),
)
RETRY_FAILED_JOBS = on_jobs(
    RETRY,
    statuses=(Status.FAILED,),
    is_offered=lambda batch: batch.counts.failed > 0,
    done=ngettext_lazy(
        "%(name)s: Retried %(count)d job.",
        "%(name)s: Retried %(count)d jobs.",
        "count",
    ),
)


class BatchFilter(IdFilter):
    title = _("batch")
    parameter_name = "batch"


JOB_FILTERS = (BatchFilter,)


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdmin, ActingAdmin):
    """Batches. They are made by groups, and go with the last of their jobs."""

    list_display = ("id", "short_description", "enqueued", "state", "jobs")
    list_display_links = ("id", "short_description")
    when_empty = _("A batch appears here when a group of jobs is enqueued.")
    ordering = ("-id",)
    search_fields = ("id", "description")
    search_help_text = _("An id, or the beginning of a description")
    fields = ("full_description", "enqueued", "state", "jobs")
    acts = (CANCEL_JOBS, RETRY_FAILED_JOBS)

    has_retry_permission = permitted("retry_job")
    has_cancel_permission = permitted("cancel_job")

    # Pages

    def look_up(self, request, rows):
        add_counts(rows)

    def find(self, rows, term):
        return by_id_or_beginning(rows, term, "description")

    def render_change_form(self, request, context, *args, obj=None, **kwargs):
        context["successors"] = batch_links(obj, self.admin_site)
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def preview(self, act, row):
        shown = effects_by_status(act, numbers_of(row.counts), self.most_at_once)
        return {"subject": gettext("Batch %(name)s") % {"name": name_of(row)}, **shown}

    # Columns

    short_description = short("description", _("description"))
    full_description = full("description", _("description"))
    enqueued = moment("enqueued_at", _("enqueued"))

    @admin.display(description=_("state"))
    def state(self, batch: Batch) -> str:
        counts = batch.counts
        if not counts.is_finished:
            kind, word = "running", gettext("Unfinished")
        elif counts.failed or counts.cancelled:
            kind, word = "failed", gettext("Ended, not all succeeded")
        else:
            kind, word = "successful", gettext("Successful")
        text = gettext("%(finished)s of %(total)s")
        numbers = {"finished": counts.finished, "total": counts.total}
        return status_word(kind, word, text % numbers)

    @admin.display(description=_("jobs"))
    def jobs(self, batch: Batch) -> str:
        """Show how many jobs there are of each status, as links to their lists."""
        links = links_by_status(self.admin_site, batch.counts, Status, batch=batch.pk)
        return links or self.get_empty_value_display()


def numbers_of(counts: BatchProgress) -> dict[str, int]:
    return {status: getattr(counts, status.lower()) for status in Status.values}


def add_counts(batches: list[Batch]) -> None:
    """Set the progress of each batch, by one query for all."""
    progress = progress_of(Batch.objects.filter(pk__in=[each.pk for each in batches]))
    for batch in batches:
        batch.counts = progress.get(batch.pk, BatchProgress())


def job_context(request, job: Job, lineage: Lineage, admin_site) -> dict[str, Any]:
    """Return the context for the template: `links.html`, a graph and a tree."""
    context = job_links(job, admin_site) if job.has_keys else {}
    if context.get("predecessors") or context.get("successors"):
        context |= graph(job, admin_site)
    return context | tree(job, lineage, admin_site)


JOB_CONTEXTS = (job_context,)
