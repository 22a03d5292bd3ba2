"""What the page of a job shows: which columns, in which order, and what beside them.

And its timeline: what happened to the job, in the order of time.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Case, Exists, F, Func, OuterRef, TextField, When
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Left, Right
from django.utils.timezone import now
from django.utils.translation import gettext as _

from ..base.mask_names import MASKED
from ..base.moments import instant, local
from ..features import entries
from ..models.attempt import Attempt
from ..models.job import Job
from ..models.job_choices import Status
from ..models.predecessor import Predecessor
from ..reports.json_text import masked_result, plain, readable
from ..reports.secrets import masked_key
from ..reports.task_words import OWN, with_own
from ..reports.texts import block, excerpt, visible
from ..tasks.sensitive import named_arguments, sensitive_words
from .markup import ago, exact, exactly, lasting
from .progress import Bar, bar


class Moment(NamedTuple):
    at: datetime
    kind: str  # the class of its colour
    text: str
    attempt: Any = None  # that began

    @property
    def exactly(self) -> str:
        return exact(self.at)

    @property
    def ago(self) -> str:
        return ago(self.at)


def timeline(job: Job, attempts: Iterable[Attempt]) -> list[Moment]:
    moments = [*of_columns(job), *of_attempts(job, attempts)]
    for moments_of in entries("timeline", "MOMENTS"):
        moments += (Moment(*values) for values in moments_of(job))
    return sorted(moments, key=lambda moment: instant(moment.at))


def of_columns(job: Job) -> Iterator[Moment]:
    yield Moment(job.enqueued_at, "ready", _("Enqueued"))
    if job.run_after is not None:
        yield Moment(job.run_after, "scheduled", _("Due"))
    if job.cancel_requested_at is not None:
        yield Moment(job.cancel_requested_at, "waiting", _("Asked to cancel"))
    if job.finished_at is not None:
        word = str(Status(job.status).label)
        yield Moment(job.finished_at, job.status.lower(), word)


def of_attempts(job: Job, attempts: Iterable[Any]) -> Iterator[Moment]:
    for attempt in attempts:
        values = {
            "number": attempt.number,
            "outcome": attempt.outcome_word,
            "time": getattr(attempt, "shown_duration", ""),
        }
        text = _("Attempt %(number)d: %(outcome)s after %(time)s")
        if attempt.started_at is None:
            text = _("Attempt %(number)d: %(outcome)s")
        elif attempt.finished_at is None:
            text = _("Attempt %(number)d: has been running for %(time)s")
        at = attempt.started_at or attempt.finished_at or job.enqueued_at
        yield Moment(at, attempt.outcome.lower(), text % values, attempt)


# Fields of the page, by the columns without which the page skips them.
FACTS = {
    **{"worker_id": "worker_link", "batch_id": "batch_link", "expires_at": "expires"},
    **{name: name for name in ("crashes", "timeout", "process_units")},
}
KEY_FIELDS = ("masked_unique_key", "unique_for", "unique_until", "holds_key")
INTERNALS = ("max_attempts", "max_crashes", "attempts", "failures", "life")


def fieldsets(
    job: Job, may_see_arguments: bool
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the groups of fields, without the columns that hold nothing.

    Keys are made of arguments, so only who may see these sees them.
    """
    has_key = job.unique_key and may_see_arguments
    keys = KEY_FIELDS if has_key else ()
    yield None, {"fields": (*state_fields(job), *keys)}
    internals = (*INTERNALS, "lease_token")
    yield _("Internals"), {"fields": internals, "classes": ("collapse",)}


def state_fields(job: Job) -> tuple:
    """Return the fields at the top of the page, which say how the job does."""
    return (
        "status_word",
        *(("why",) if job.why else ()),
        *(("full_reason",) if job.reason_start else ()),
        *("task_and_state", "queue", "priority", "tries"),
        *filled(job, FACTS),
    )


def filled(job: Job, fields: dict[str, str]) -> tuple[str, ...]:
    """Return the fields whose columns hold something."""
    return tuple(field for column, field in fields.items() if getattr(job, column))


LONGEST_TEXT = 100_000  # characters of one text that are fetched and shown
LONGEST_LINE = 300
TIME_OF_LINE = re.compile(r"^\d{4}-\d\d-\d\d[ T][\d:.]{8,15}[+-]\d\d:\d\d", re.M)
MOST_ATTEMPTS = 50

# Keys that the page shows as links at once.
LINKED = (
    *("batch_id", "has_successors", "first_id", "continued_as"),
    *("place", "results", "results_taken", "enqueued_in", MASKED, "encrypted"),
)
ATTEMPT_TEXTS = ("exception_class", "message", "traceback")


class Text(NamedTuple):
    title: str
    text: str


class Origin(NamedTuple):
    """How to find the row of a feature that enqueued a job, such as a schedule."""

    kind: str  # the name of the model
    id: str  # the path of relations from the job to its id
    name: str  # the path to its name
    shown: str = "{name}"


class Enqueued(NamedTuple):
    """The row of a feature that enqueued the job."""

    kind: str
    id: int
    name: str


class Lineage(NamedTuple):
    """What `meta` says of where the job comes from, as text."""

    correlation: str | None
    parent: str | None


def details(job: Job, may_see_arguments: bool) -> dict[str, Any]:
    """Return the template context for a job's page; never fails on what a row holds."""
    attempts = [*unrecorded_attempt(job), *attempts_of(job)]
    for attempt in attempts[:1]:
        attempt.is_latest = True
    row = Job.objects.filter(pk=job.pk).values(**columns(may_see_arguments)).first()
    row = row or {}
    for key in entries("admin", "JOB_KEYS"):
        setattr(job, key, row.get(key))
    job.own_words = row.get("own_words")
    words = with_own(sensitive_words(job.task), job.own_words)
    job.moments = timeline(job, attempts[:MOST_ATTEMPTS])
    return {
        "may_see_arguments": may_see_arguments,
        "origin": origin(row),
        "lineage": Lineage(row.get("correlation"), row.get("parent")),
        "texts": list(texts(job.task, row, words)) if may_see_arguments else [],
        "log": in_zone(visible(row.get("log") or "")),
        "zone": f"{local(now()):%Z}",
        "progress": progress_of(row),
        "progress_at": ago(row.get("progress_at")),
        "attempts": attempts[:MOST_ATTEMPTS],
        "hidden_attempts": len(attempts) > MOST_ATTEMPTS,
        "most_attempts": MOST_ATTEMPTS,
        "timeline": job.moments,
    }


def origin(row: dict[str, Any]) -> Enqueued | None:
    """Return what enqueued the job, if a feature did."""
    for entry in entries("admin", "JOB_ORIGINS"):
        if (id := row.get(f"{entry.kind}_id")) is not None:
            name = row[entry.kind]
            shown = entry.shown.format(name=excerpt(name, 200), id=id)
            return Enqueued(entry.kind, id, shown)
    return None


def columns(may_see_arguments: bool) -> dict[str, Any]:
    """Return what to read. JSON comes as text, so that nothing has to decode it."""
    always = {
        "progress_at": F("progress__updated_at"),
        "done": F("progress__done"),
        "total": F("progress__total"),
        "progress_message": Left("progress__message", 2 * LONGEST_LINE),
        "correlation": KT("meta__correlation_id"),
        "parent": KT("meta__parent_id"),
    }
    for entry in entries("admin", "JOB_ORIGINS"):
        always |= {f"{entry.kind}_id": F(entry.id), entry.kind: F(entry.name)}
    # What features read of `keys`, as text. The rest of it may be large.
    always |= {key: KT(f"keys__{key}") for key in entries("admin", "JOB_KEYS")}
    arguments = {
        "named": beginning("kwargs"),
        "unnamed": beginning("args"),
        "whole": Cast("kwargs", TextField()),
        "whole_unnamed": Cast("args", TextField()),
        "taken_along": beginning("meta"),
        "held_by": beginning(keys_without_links()),
        "result": beginning("return_value"),
        "log": Right("progress__log", LONGEST_TEXT),
        "own_words": OWN,
    }
    return always | arguments if may_see_arguments else always


def keys_without_links() -> Case:
    """Return the keys but for those that the page shows as links to other rows.

    Until a worker has looked at the job, only its keys know its predecessors.
    """
    linked = Predecessor.objects.filter(job_id=OuterRef("pk"))
    return Case(
        When(Exists(linked), then=keys_but("after", "after_batches", "needs", *LINKED)),
        default=keys_but(*LINKED),
    )


def keys_but(*names: str) -> Func:
    listed = ", ".join(f"'{name}'" for name in names)
    template = f"(%(expressions)s - ARRAY[{listed}])"
    return Func(F("keys"), template=template)


def beginning(json_column: str | Case, length: int = LONGEST_TEXT) -> Left:
    return Left(Cast(json_column, TextField()), length + 1)


def texts(task: str, row: dict[str, Any], words: tuple[str, ...]):
    """Yield the arguments, the result and the log, as far as there are any."""
    if row.get("named") is not None:
        yield Text(_("Arguments"), json_block(row["named"], words))
    if row.get("unnamed") not in (None, "[]"):
        named = named_arguments(task, row["unnamed"])
        yield Text(_("Unnamed arguments"), json_block(named, words))
    if row.get("taken_along") is not None:
        yield Text(
            _("Carried along from where it was enqueued"),
            json_block(row["taken_along"], words),
        )
    if row.get("held_by") not in (None, "{}"):
        # Many of these names end in "key". They are ours, and hold no secret.
        unnamed = named_arguments(task, row["whole_unnamed"])
        held_by = masked_key(row["held_by"], words, row["whole"], unnamed)
        text = block(plain(held_by), LONGEST_TEXT)
        yield Text(_("Lock, limit, rate and predecessors"), text)
    if row.get("result") is not None:
        result = masked_result(row["result"], words)
        yield Text(_("Result"), json_block(result, words))


def in_zone(log: str) -> str:
    """Return a log whose lines begin with their times in the reader's zone."""

    def shown(found: re.Match) -> str:
        try:
            return f"{local(datetime.fromisoformat(found[0])):%Y-%m-%d %H:%M:%S}"
        except (ValueError, OverflowError):
            return found[0]

    return TIME_OF_LINE.sub(shown, log)


def json_block(
    text: str, words: tuple[str, ...] = (), longest: int = LONGEST_TEXT
) -> str:
    return block(readable(text[:longest], words), longest, is_cut=len(text) > longest)


def progress_of(row: dict[str, Any]) -> Bar | None:
    if row.get("done") is None:
        return None
    message = excerpt(row["progress_message"], LONGEST_LINE)
    return bar(row["done"], row["total"], message)


def unrecorded_attempt(job: Job):
    """Yield the attempt that runs or succeeded, which only the job's columns show."""
    is_on_record = job.status not in (Status.SUCCESSFUL, Status.RUNNING)
    if is_on_record or job.last_attempted_at is None:
        return
    attempt = Attempt(
        life=job.life,
        number=job.attempts,
        started_at=job.last_attempted_at,
        finished_at=job.finished_at,
        outcome=job.status,
    )
    worker = job.worker_name or (job.worker.name if job.worker else "")
    attempt.shown_worker = excerpt(worker, LONGEST_LINE)
    yield with_times(attempt)


def with_times(attempt: Attempt) -> Attempt:
    """Give an attempt what the page shows of its outcome and times."""
    outcome = attempt.outcome
    is_recorded = outcome in Attempt.Outcome.values
    labels = Attempt.Outcome if is_recorded else Status
    attempt.outcome_word = labels(outcome).label
    attempt.shown_start = exactly(attempt.started_at)
    if attempt.started_at is not None:
        end = attempt.finished_at or now()
        attempt.shown_duration = lasting(instant(end) - instant(attempt.started_at))
    return attempt


def attempts_of(job: Job):
    """Return the latest attempts of all lives, one more than the page shows."""
    attempts = Attempt.objects.filter(job_id=job.pk).order_by("-life", "-number")
    shortened = {
        f"{name}_start": Left(name, LONGEST_TEXT + 1) for name in ATTEMPT_TEXTS
    }
    rows = attempts.defer(*ATTEMPT_TEXTS).annotate(**shortened)[: MOST_ATTEMPTS + 1]
    for attempt in rows:
        with_times(attempt)
        attempt.shown_worker = excerpt(attempt.worker_name, LONGEST_LINE)
        attempt.shown_exception = excerpt(attempt.exception_class_start, LONGEST_LINE)
        message = without_class(attempt)
        is_said = message.strip() and message.strip() in job.reason_start
        attempt.shown_message = "" if is_said else block(message, 2_000)
        attempt.shown_traceback = block(attempt.traceback_start, LONGEST_TEXT)
        yield attempt


def without_class(attempt: Attempt) -> str:
    """Return the message of an attempt; its class stands above it already."""
    name = attempt.exception_class_start.rpartition(".")[2]
    return (
        attempt.message_start.removeprefix(f"{name}: ")
        if name
        else attempt.message_start
    )
