"""What an operator may do to jobs: one table for buttons, bulk actions and pages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib.admin.models import CHANGE, DELETION
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from ..conf import FINISHED
from ..models import Job, Status
from ..models.job import QUEUED, JobQuerySet
from ..queue.acts import Changed
from .forms import ActForm, ReasonForm, ResultForm

UNFINISHED = (*QUEUED, Status.RUNNING)


def never(job: Job) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Act:
    verb: str  # in URLs and names
    permission: str  # has_<permission>_permission of the admin
    run: Callable[..., Changed]  # guards the status itself, in SQL
    statuses: tuple[Status, ...]  # to which it is offered
    is_over: Callable[[Job], bool] = never  # done already, so that it is not offered
    takes_up_keys: bool = False  # so that a job may be skipped for its unique key
    form: type[ActForm] = ActForm
    flag: int = CHANGE  # of the log entry
    label: str
    bulk_label: str
    effect: str  # on the confirmation page
    effect_on_running: str = ""
    done: Any  # a lazy plural: done % {"count": 3}

    def is_offered(self, job: Job) -> bool:
        return job.status in self.statuses and not self.is_over(job)


RETRY = Act(
    verb="retry",
    permission="retry",
    run=JobQuerySet.retry,
    statuses=FINISHED,
    takes_up_keys=True,
    label=_("Retry"),
    bulk_label=_("Retry selected jobs"),
    effect=_(
        "Finished jobs return to the queue and run again from the beginning, with all "
        "their attempts. Results are forgotten; earlier attempts stay on record."
    ),
    done=ngettext_lazy("Retried %(count)d job.", "Retried %(count)d jobs.", "count"),
)
RUN_NOW = Act(
    verb="run_now",
    permission="run_now",
    run=JobQuerySet.run_now,
    statuses=(Status.SCHEDULED,),
    label=_("Run now"),
    bulk_label=_("Run selected jobs now"),
    effect=_("Scheduled jobs no longer wait for their time."),
    done=ngettext_lazy(
        "%(count)d job no longer waits for its time.",
        "%(count)d jobs no longer wait for their time.",
        "count",
    ),
)
CANCEL = Act(
    verb="cancel",
    permission="cancel",
    run=JobQuerySet.cancel,
    statuses=UNFINISHED,
    is_over=lambda job: job.cancel_requested_at is not None,
    form=ReasonForm,
    label=_("Cancel"),
    bulk_label=_("Cancel selected jobs"),
    effect=_("Jobs that have not started will not run."),
    effect_on_running=_(
        "A running job is asked to stop. It stops where its task looks for the "
        "request, and ends as usual if it never does."
    ),
    done=ngettext_lazy(
        "Cancelled %(count)d job, or asked it to stop.",
        "Cancelled %(count)d jobs, or asked them to stop.",
        "count",
    ),
)
FENCED = _(
    "A running job is taken from its worker: whatever the worker reports of it from "
    "now on is ignored. But its task may still run for a while, with all its effects."
)
FAIL = Act(
    verb="fail",
    permission="fail",
    run=JobQuerySet.fail,
    statuses=UNFINISHED,
    form=ReasonForm,
    label=_("Fail"),
    bulk_label=_("Fail selected jobs"),
    effect=_("Unfinished jobs end as failed, without another attempt."),
    effect_on_running=FENCED,
    done=ngettext_lazy("Failed %(count)d job.", "Failed %(count)d jobs.", "count"),
)
SUCCEED = Act(
    verb="succeed",
    permission="fail",
    run=JobQuerySet.succeed,
    statuses=UNFINISHED,
    form=ResultForm,
    label=_("Succeed"),
    bulk_label=_("Mark selected jobs as successful"),
    effect=_("Unfinished jobs end as successful, without running."),
    effect_on_running=FENCED,
    done=ngettext_lazy(
        "Marked %(count)d job as successful.",
        "Marked %(count)d jobs as successful.",
        "count",
    ),
)
DELETE = Act(
    verb="delete",
    permission="delete",
    run=JobQuerySet.discard,
    statuses=(*QUEUED, *FINISHED),
    flag=DELETION,
    label=_("Delete"),
    bulk_label=_("Delete selected jobs"),
    effect=_("Jobs and the record of their attempts are deleted for good."),
    effect_on_running=_("A running job is not deleted."),
    done=ngettext_lazy("Deleted %(count)d job.", "Deleted %(count)d jobs.", "count"),
)

BUTTONS = (RETRY, RUN_NOW, CANCEL, FAIL, SUCCEED)
BULK_ACTIONS = (*BUTTONS, DELETE)
