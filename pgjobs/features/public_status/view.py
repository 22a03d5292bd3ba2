"""The view that `pgjobs.views` shows to projects: a job's status as JSON.

It says why a job failed, was cancelled or waits, as far as the public may know. The
public sees a reason that was written for people as it is. The message of any other
error is as internal as a traceback, so that the public sees only the error's class.
"""

import math
from collections.abc import Callable
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any

from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db.models import (
    BigIntegerField,
    BooleanField,
    Count,
    DurationField,
    ExpressionWrapper,
    F,
    Func,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
)
from django.db.models.functions import Cast, Now
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string
from django.utils.translation import gettext
from django.views.decorators.cache import cache_control
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from ...base.addresses import id_of
from ...base.moments import instant
from ...base.plain_json import dump
from ...conf import settings
from ...models.attempt import Attempt
from ...models.job import Job
from ...models.job_choices import Status
from ...reports.json_text import masked_result, without_sensitive
from ...reports.task_words import OWN, with_own
from ...tasks.sensitive import sensitive_words

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
# Seconds until the client should look again.
SHORTEST_WAIT = 1
LONGEST_WAIT = 60  # an operator may run a scheduled job at once

# The columns that are read. The result comes as text: SQL may have stored numbers that
# Python cannot read, and a megabyte need not be decoded and encoded again. The job
# fetches other columns if the permission function reads them.
COLUMNS = (
    "task",
    "status",
    "attempts",
    "failures",
    "max_attempts",
    "enqueued_at",
    "run_after",
    "started_at",
    "finished_at",
    "reason",
    "progress__done",
    "progress__total",
    "progress__message",
)
WAIT = ExpressionWrapper(F("run_after") - Now(), output_field=DurationField())


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


def holds_address(request: HttpRequest, job: Job) -> bool:
    """Let every visitor with the signed address see the job: return True.

    `PGJOBS["STATUS_PERMISSION"]` can name another function of `request` and `job`.
    """
    return True


@csrf_exempt  # so that the answer to a POST is 405, not 403
@require_safe
@cache_control(no_store=True)
def job_status(request: HttpRequest, token: str) -> HttpResponse:
    """Tell in JSON how the job of a signed address goes; only GET and HEAD.

    `token`: the last part of `job.get_status_url()`. Returns `status`, `finished`,
    `progress`, `attempts`, `max_attempts`, four times, `reason` and `return_value`.
    Until the job has finished, the header Retry-After has the seconds to wait.
    Returns 404 if there is no such job, and to a `request` that may not see it.
    """
    job = job_of(token)
    if job is None or not may_see(request, job):
        # Also without permission: 403 would reveal that there is such a job.
        return answer('{"error":"There is no such job."}', status=404)
    response = answer(described(job))
    if not job.is_finished:
        response["Retry-After"] = str(seconds_to_wait(job))
    return response


def answer(content: str, status: int = 200) -> HttpResponse:
    return HttpResponse(content, content_type="application/json", status=status)


def job_of(token: str) -> Job | None:
    id = id_of(token)
    if id is None:
        return None
    newest = Func(Value(id), function="pgjobs_newest", output_field=BigIntegerField())
    jobs = Job.objects.filter(pk=newest).select_related("progress").only(*COLUMNS)
    result = Cast("return_value", TextField())
    found = with_last_error(jobs).annotate(result=result, own_words=OWN, due_in=WAIT)
    return found.first()


def may_see(request: HttpRequest, job: Job) -> bool:
    try:
        return bool(status_permission()(request, job))
    except PermissionDenied:
        return False


def status_permission() -> Callable[[HttpRequest, Job], bool]:
    """Return the function that PGJOBS["STATUS_PERMISSION"] names.

    Raises ImproperlyConfigured if there is none that could say no.
    """
    name = settings.STATUS_PERMISSION
    try:
        permission = import_string(name)
    except ImportError as error:
        raise ImproperlyConfigured(
            f"PGJOBS['STATUS_PERMISSION'] names {name!r}, which cannot be imported: "
            f"{error}"
        ) from error
    if not callable(permission):
        raise ImproperlyConfigured(
            f"PGJOBS['STATUS_PERMISSION'] names {name!r}, which is no function but "
            f"a {type(permission).__name__}."
        )
    if iscoroutinefunction(permission):  # the coroutine that it returns is always true
        raise ImproperlyConfigured(
            f"PGJOBS['STATUS_PERMISSION'] names {name!r}, which must not be async."
        )
    return permission


def described(job: Job) -> str:
    """Return the public facts about the job as JSON text."""
    known = dump(
        {
            "status": job.status,
            "finished": job.is_finished,
            "progress": progress_of(job),
            "attempts": job.attempts,
            "max_attempts": job.max_attempts,
            "enqueued_at": iso(job.enqueued_at),
            "run_after": iso(job.run_after),
            "started_at": iso(job.started_at),
            "finished_at": iso(job.finished_at),
            "reason": public_reason(job),
        }
    )
    result = "null" if job.result is None else job.result
    words = with_own(sensitive_words(job.task), job.own_words)
    result = without_sensitive(masked_result(result, words), words)
    return f'{known[:-1]},"return_value":{result}}}'


def progress_of(job: Job) -> dict[str, Any] | None:
    progress = getattr(job, "progress", None)
    if progress is None or progress.done is None:
        return None
    return {
        "done": finite(progress.done),
        "total": finite(progress.total),
        "message": progress.message,
    }


def finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def iso(moment: datetime | None) -> str | None:
    return instant(moment).isoformat() if moment else None


def seconds_to_wait(job: Job) -> int:
    if job.status != Status.SCHEDULED:
        return SHORTEST_WAIT
    seconds = math.ceil(job.due_in.total_seconds())
    return min(max(seconds, SHORTEST_WAIT), LONGEST_WAIT)
