"""Why a job failed, was cancelled or waits, as far as the public may know.

The public sees a reason that was written for people as it is. The message of any other
error is as internal as a traceback, so that the public sees only the error's class.
"""

from django.db.models import (
    BooleanField,
    Count,
    ExpressionWrapper,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)
from django.utils.translation import gettext

from ..models.attempt import Attempt
from ..models.job import Job
from ..models.job_choices import Status

# Errors of pgjobs whose messages are for people. Then those whose messages are not, and
# become reasons without their class in front.
PACKAGE = "pgjobs.exceptions."
FOR_PEOPLE = {f"{PACKAGE}{name}" for name in ("Fail", "Retry", "TaskTimeout")}
INTERNAL = {
    f"{PACKAGE}{name}"
    for name in ("InvalidArguments", "InvalidStep", "InvalidTask", "UnknownTask")
}
# How the database begins the reasons that it writes itself.
BY_DATABASE = ("Failed: ", "Worker lost ")
COMPARED = 400  # characters; both texts may be cut behind them


def with_last_error(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Annotate the columns that `public_reason` reads."""
    in_this_life = Attempt.objects.filter(job=OuterRef("pk"), life=OuterRef("life"))
    last = in_this_life.order_by("-number")
    failed = in_this_life.filter(outcome="FAILED").order_by().values("job")
    return jobs.annotate(
        error_class=Subquery(last.values("exception_class")[:1]),
        error_message=Subquery(last.values("message")[:1]),
        last_outcome=Subquery(last.values("outcome")[:1]),
        known_failures=Subquery(failed.values(number=Count("pk"))),
        may_depend=ExpressionWrapper(
            Q(dependencies__isnull=False), output_field=BooleanField()
        ),
    )


def public_reason(job) -> str:
    """Return the reason, or the class of an error whose message is not for the public.

    `job`: of `with_last_error`. The attempt of a failure is missing if the worker was
    not permitted to store it. Then the reason may have its message.
    """
    is_of_error = job.error_class and is_same(job.reason, job.error_message)
    if is_of_error and not is_for_people(job.error_class, job.reason):
        return name_of(job.error_class)
    may_be_of_error = job.failures > (job.known_failures or 0) or (
        job.may_depend and job.status == Status.FAILED and failed_unrun(job)
    )
    if job.reason and may_be_of_error:
        return gettext("Failed.")
    return job.reason


def is_same(reason: str, message: str) -> bool:
    return reason[:COMPARED] == message[:COMPARED]


def is_for_people(error_class: str, reason: str) -> bool:
    if error_class in FOR_PEOPLE:
        return True
    # The project may derive a class of `Fail` or `Retry`. Its name does not stand
    # before its message, as the names of other errors do.
    return error_class not in INTERNAL and not reason.startswith(name_of(error_class))


def name_of(error_class: str) -> str:
    return error_class.rpartition(".")[2]


def failed_unrun(job) -> bool:
    """Whether a worker may have failed the job while deciding about dependencies.

    Then the reason may have the message of an error in project code, and no attempt is
    stored.
    """
    return job.last_outcome != "FAILED" and not job.reason.startswith(BY_DATABASE)
