"""The public view of a job: JSON for the pages of the project."""

import math
from collections.abc import Callable
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any

from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.db.models import DurationField, ExpressionWrapper, F, TextField
from django.db.models.functions import Cast, Now
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string
from django.views.decorators.cache import cache_control
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from .base.addresses import id_of
from .base.moments import instant
from .base.plain_json import dump
from .conf import settings
from .models import Job, Status
from .reports.json_text import without_sensitive
from .reports.public_reason import public_reason, with_last_error
from .tasks.sensitive import sensitive_words

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
    jobs = Job.objects.filter(pk=id).select_related("progress").only(*COLUMNS)
    result = Cast("return_value", TextField())
    return with_last_error(jobs).annotate(result=result, due_in=WAIT).first()


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
    result = without_sensitive(result, sensitive_words(job.task))
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
