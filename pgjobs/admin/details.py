"""What the page of a job shows beside its columns."""

import math
from typing import Any, NamedTuple

from django.db.models import F, TextField
from django.db.models.functions import Cast, Left, Right
from django.utils.translation import gettext_lazy as _

from ..models import Attempt, Job
from .json_text import readable
from .texts import block, excerpt, visible

LONGEST_TEXT = 100_000  # characters of one text that are fetched and shown
LONGEST_LINE = 300
MOST_ATTEMPTS = 50

ATTEMPT_TEXTS = ("exception_class", "message", "traceback")


class Text(NamedTuple):
    title: str
    text: str


class Bar(NamedTuple):
    """Progress; `value` and `most` are the attributes of an HTML progress element."""

    done: float
    total: float | None
    value: str
    most: str
    message: str


def details(job: Job, may_see_arguments: bool) -> dict[str, Any]:
    """Return the template context for a job's page; never fails on what a row holds."""
    attempts = list(attempts_of(job))
    row = Job.objects.filter(pk=job.pk).values(**columns(may_see_arguments)).first()
    row = row or {}
    return {
        "may_see_arguments": may_see_arguments,
        "texts": list(texts(row)) if may_see_arguments else [],
        "progress": bar(row),
        "progress_at": row.get("progress_at"),
        "attempts": attempts[:MOST_ATTEMPTS],
        "hidden_attempts": len(attempts) > MOST_ATTEMPTS,
        "most_attempts": MOST_ATTEMPTS,
    }


def columns(may_see_arguments: bool) -> dict[str, Any]:
    """Return what to read. JSON comes as text, so that nothing has to decode it."""
    always = {
        "progress_at": F("progress__updated_at"),
        "done": F("progress__done"),
        "total": F("progress__total"),
        "progress_message": Left("progress__message", 2 * LONGEST_LINE),
    }
    arguments = {
        "named": beginning("kwargs"),
        "unnamed": beginning("args"),
        "result": beginning("return_value"),
        "log": Right("progress__log", LONGEST_TEXT),
    }
    return always | arguments if may_see_arguments else always


def beginning(json_column: str) -> Left:
    return Left(Cast(json_column, TextField()), LONGEST_TEXT + 1)


def texts(row: dict[str, Any]):
    """Yield the arguments, the result and the log, as far as there are any."""
    if row.get("named") is not None:
        yield Text(_("Arguments"), json_block(row["named"]))
    if row.get("unnamed") not in (None, "[]"):
        yield Text(_("Unnamed arguments"), json_block(row["unnamed"]))
    if row.get("result") is not None:
        yield Text(_("Result"), json_block(row["result"]))
    if row.get("log"):
        yield Text(_("Log"), visible(row["log"]))


def json_block(text: str) -> str:
    shown = readable(text[:LONGEST_TEXT])
    return block(shown, LONGEST_TEXT, is_cut=len(text) > LONGEST_TEXT)


def bar(row: dict[str, Any]) -> Bar | None:
    done, total = row.get("done"), row.get("total")
    if done is None:
        return None
    message = excerpt(row["progress_message"], LONGEST_LINE)
    measurable = total is not None and total > 0 and math.isfinite(total + done)
    if not measurable:
        return Bar(done, None, "", "", message)
    # As text: a localised number is no valid attribute.
    return Bar(done, total, f"{min(max(done, 0), total):g}", f"{total:g}", message)


def attempts_of(job: Job):
    """Return one more than the latest attempts that are shown, of all lives."""
    attempts = Attempt.objects.filter(job_id=job.pk).order_by("-life", "-number")
    shortened = {
        f"{name}_start": Left(name, LONGEST_TEXT + 1) for name in ATTEMPT_TEXTS
    }
    rows = attempts.defer(*ATTEMPT_TEXTS).annotate(**shortened)[: MOST_ATTEMPTS + 1]
    for attempt in rows:
        attempt.shown_worker = excerpt(attempt.worker_name, LONGEST_LINE)
        attempt.shown_exception = excerpt(attempt.exception_class_start, LONGEST_LINE)
        attempt.shown_message = block(attempt.message_start, 2_000)
        attempt.shown_traceback = block(attempt.traceback_start, LONGEST_TEXT)
        yield attempt
