"""What an operator may do to jobs: one table for buttons, bulk actions and pages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib.admin.models import CHANGE, DELETION
from django.db import transaction
from django.db.models import TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from ..base.mask_names import MASKED
from ..conf import FINISHED
from ..features import entries, modules
from ..models.job import Job
from ..models.job_choices import QUEUED, Status
from ..models.job_set import JobQuerySet
from ..queue.acts import Changed
from ..reports.task_words import OWN, with_own
from ..tasks.arguments import Stored
from ..tasks.stored_jobs import job_of
from .forms import ActForm, NotedForm, ReasonForm, ResultForm


class Repeated(Changed):
    """The outcome of the act, with the id of the new job."""

    new_id: int


class Noted(Changed):
    """The outcome of the act, with one more sentence about it."""

    note: str = ""


def run_again(jobs) -> Repeated:
    """Enqueue a job like the one in the set: same arguments, queue and priority.

    Its other options are those that the task has now. Raises AlreadyEnqueued if another
    job holds its unique key.
    """
    # As text: SQL may have stored JSON that Python cannot read.
    texts = (Cast(column, TextField()) for column in ("args", "kwargs"))
    mark = KT("keys__encrypted")
    columns = jobs.values_list("task", "queue_name", "priority", *texts, OWN, mark)
    with transaction.atomic(using=Job.objects.db_to_write):
        task, queue_name, priority, args, kwargs, own, mark = columns.get()
        stored = Stored(args, kwargs)
        made = [module.made_again(task, stored, mark) for module in modules("stored")]
        new_job = (made[0] if made else job_of(task, stored))._replace(
            queue_name=queue_name, priority=priority, on_conflict="raise"
        )
        if masked := with_own((), own):
            keys = {**(new_job.keys or {}), MASKED: masked}
            new_job = new_job._replace(keys=keys)
        (job,) = Job.objects.db_manager(Job.objects.db_to_write).insert([new_job])
    repeated = Repeated(1, 0)
    repeated.new_id = job.pk
    return repeated


UNFINISHED = (*QUEUED, Status.RUNNING)

SKIPPED = ngettext_lazy(
    "%(count)d job was skipped: its status did not allow it.",
    "%(count)d jobs were skipped: their status did not allow it.",
    "count",
)
SKIPPED_OR_TAKEN = ngettext_lazy(
    "%(count)d job was skipped: its status did not allow it, or another job holds its "
    "unique key.",
    "%(count)d jobs were skipped: their status did not allow it, or other jobs hold "
    "their unique keys.",
    "count",
)


@dataclass(frozen=True, kw_only=True)
class Act:
    """What an operator may do to rows of a model: to one of them, or to many."""

    verb: str  # in URLs and names
    permission: str  # has_<permission>_permission of the admin
    # It gets the rows as a queryset, and the form's fields as keywords. Its SQL checks
    # the status itself.
    run: Callable[..., Changed]
    is_offered: Callable[[Any], bool]  # for a row
    statuses: tuple[Any, ...] = ()  # of the jobs that it changes
    leads_to: Any = None  # the status that most of them have then
    form: type[ActForm] = ActForm
    reason: Any = ""  # if the operator gives none; filled with {"user": "ada"}
    flag: int = CHANGE  # of the log entry
    is_harmful: bool = False  # what it ends or deletes does not come back by itself
    is_in_rows: bool = True  # of lists, and not on the page alone
    label: Any
    label_for: Callable[[Any], Any] | None = None  # of the button of a row
    bulk_label: Any = ""
    effect: Any  # on the confirmation page
    effect_on_running: Any = ""
    # Lazy texts, filled with {"count": 3, "name": "3 jobs"}. After a button the name is
    # that of the row.
    done: Any
    skipped: Any = SKIPPED
    unchanged: Any = ""  # the message if the row behind a button did not change


def retry_label(job: Job) -> Any:
    """Return how the button is called, beside one of another retry or alone."""
    is_alone = not any(each.is_offered(job) for each in entries("acts", "RETRIES"))
    return RETRY.label if is_alone else FROM_BEGINNING


FROM_BEGINNING = _("From the beginning")
RETRY = Act(
    verb="retry",
    form=NotedForm,
    leads_to=Status.READY,
    permission="retry",
    run=JobQuerySet.retry,
    statuses=FINISHED,
    is_offered=lambda job: job.status in FINISHED,
    skipped=SKIPPED_OR_TAKEN,
    label=_("Retry"),
    label_for=retry_label,
    bulk_label=_("Retry selected jobs"),
    effect=_(
        "Finished jobs return to the queue and run again from the beginning, with all "
        "their attempts. Results are forgotten; earlier attempts stay on record."
    ),
    done=_("Retried %(name)s."),
)
RUN_AGAIN = Act(
    verb="run_again",
    form=NotedForm,
    permission="run_again",
    run=run_again,
    is_offered=lambda job: job.status == Status.SUCCESSFUL,
    label=_("Run again"),
    effect=_(
        "A new job with the same arguments, queue and priority is enqueued. The old "
        "one stays as it is."
    ),
    done=_("Enqueued a new job like %(name)s."),
)
RUN_NOW = Act(
    verb="run_now",
    form=NotedForm,
    leads_to=Status.READY,
    permission="run_now",
    run=JobQuerySet.run_now,
    statuses=(Status.SCHEDULED,),
    is_offered=lambda job: job.status == Status.SCHEDULED,
    label=_("Run now"),
    bulk_label=_("Run selected jobs now"),
    effect=_("Scheduled jobs no longer wait for their time."),
    done=ngettext_lazy(
        "%(name)s no longer waits for its time.",
        "%(name)s no longer wait for their time.",
        "count",
    ),
)
CANCEL = Act(
    verb="cancel",
    leads_to=Status.CANCELLED,
    is_harmful=True,
    permission="cancel",
    run=JobQuerySet.cancel,
    statuses=UNFINISHED,
    is_offered=lambda job: job.status in UNFINISHED and job.cancel_requested_at is None,
    form=ReasonForm,
    reason=_("Cancelled by %(user)s."),
    label=_("Cancel"),
    bulk_label=_("Cancel selected jobs"),
    effect=_("Jobs that have not started will not run."),
    effect_on_running=_(
        "A running job is asked to stop. Its task is interrupted. A task with "
        'cancel="cooperative" is not: it stops where it looks for the request, and '
        "ends as usual if it never does."
    ),
    done=ngettext_lazy(
        "Cancelled %(name)s.",
        "Cancelled %(name)s; those that run were asked to stop.",
        "count",
    ),
)
# By the `cancel` of a task.
STOPS = {
    "interrupt": _("The running job is asked to stop. Its task is interrupted."),
    "cooperative": _(
        "The running job is asked to stop. It stops where its task looks for the "
        "request, and ends as usual if the task never does."
    ),
}
ASKED = _("Asked %(name)s to stop.")
FENCED = _(
    "A running job is taken from its worker: whatever the worker reports of it from "
    "now on is ignored. But its task may still run for a while, with all its effects."
)
FAIL = Act(
    verb="fail",
    leads_to=Status.FAILED,
    is_harmful=True,
    is_in_rows=False,
    permission="fail",
    run=JobQuerySet.fail,
    statuses=UNFINISHED,
    is_offered=lambda job: job.status in UNFINISHED,
    form=ReasonForm,
    reason=_("Failed by %(user)s."),
    label=_("Fail"),
    bulk_label=_("Fail selected jobs"),
    effect=_("Unfinished jobs end as failed, without another attempt."),
    effect_on_running=FENCED,
    done=_("Failed %(name)s."),
)
SUCCEED = Act(
    verb="succeed",
    leads_to=Status.SUCCESSFUL,
    is_in_rows=False,
    permission="fail",
    run=JobQuerySet.succeed,
    statuses=UNFINISHED,
    is_offered=lambda job: job.status in UNFINISHED,
    form=ResultForm,
    label=_("Succeed"),
    bulk_label=_("Mark selected jobs as successful"),
    effect=_("Unfinished jobs end as successful, without running."),
    effect_on_running=FENCED,
    done=_("Marked %(name)s as successful."),
)
DELETE = Act(
    verb="delete",
    form=NotedForm,
    is_harmful=True,
    permission="delete",
    run=JobQuerySet.discard,
    statuses=(*QUEUED, *FINISHED),
    is_offered=lambda job: job.status != Status.RUNNING,
    flag=DELETION,
    label=_("Delete"),
    bulk_label=_("Delete selected jobs"),
    effect=_("Jobs and the record of their attempts are deleted for good."),
    effect_on_running=_("A running job is not deleted."),
    done=_("Deleted %(name)s."),
)

CHANGES = (RETRY, RUN_NOW, CANCEL, FAIL, SUCCEED)
BUTTONS = (RUN_AGAIN, *CHANGES)
BULK_ACTIONS = (*CHANGES, DELETE)
