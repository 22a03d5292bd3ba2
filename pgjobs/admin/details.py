"""What the page of a job shows beside its columns."""

from typing import Any, NamedTuple

from django.db.models import Case, Exists, F, Func, OuterRef, TextField, When
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Left, Right
from django.utils.timezone import now
from django.utils.translation import gettext_lazy as _

from ..base.moments import instant
from ..models import Attempt, Job, Predecessor, Status, Step
from ..reports.json_text import plain, readable
from ..reports.secrets import masked_key
from ..reports.texts import block, excerpt, visible
from ..tasks.sensitive import named_arguments, sensitive_words
from .markup import ago, exactly, lasting
from .progress import Bar, bar
from .timeline import timeline

LONGEST_TEXT = 100_000  # characters of one text that are fetched and shown
LONGEST_LINE = 300
MOST_ATTEMPTS = 50
MOST_STEPS = 200
LONGEST_STEP_RESULT = 2_000

# Keys that the page shows as links at once.
LINKED = ("batch_id", "has_successors")
ATTEMPT_TEXTS = ("exception_class", "message", "traceback")


class Text(NamedTuple):
    title: str
    text: str


class Origin(NamedTuple):
    """A schedule or an event."""

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
    steps = list(steps_of(job, may_see_arguments))
    row = Job.objects.filter(pk=job.pk).values(**columns(may_see_arguments)).first()
    row = row or {}
    return {
        "may_see_arguments": may_see_arguments,
        "origin": origin(row),
        "lineage": Lineage(row.get("correlation"), row.get("parent")),
        "texts": list(texts(job.task, row, sensitive_words(job.task)))
        if may_see_arguments
        else [],
        "progress": progress_of(row),
        "progress_at": ago(row.get("progress_at")),
        "attempts": attempts[:MOST_ATTEMPTS],
        "hidden_attempts": len(attempts) > MOST_ATTEMPTS,
        "most_attempts": MOST_ATTEMPTS,
        "timeline": timeline(job, attempts[:MOST_ATTEMPTS]),
        "steps": steps[:MOST_STEPS],
        "hidden_steps": len(steps) > MOST_STEPS,
        "most_steps": MOST_STEPS,
    }


def origin(row: dict[str, Any]) -> Origin | None:
    """Return what enqueued the job, if it was a schedule or an event."""
    if row.get("schedule_id") is not None:
        return Origin("schedule", row["schedule_id"], excerpt(row["schedule"], 200))
    if row.get("event_id") is not None:
        name = excerpt(row["event"], 200)
        return Origin("event", row["event_id"], f"{name} #{row['event_id']}")
    return None


def columns(may_see_arguments: bool) -> dict[str, Any]:
    """Return what to read. JSON comes as text, so that nothing has to decode it."""
    always = {
        "progress_at": F("progress__updated_at"),
        "done": F("progress__done"),
        "total": F("progress__total"),
        "progress_message": Left("progress__message", 2 * LONGEST_LINE),
        "schedule_id": F("tick__schedule_id"),
        "schedule": F("tick__schedule__name"),
        "event_id": F("delivery__event_id"),
        "event": F("delivery__event__name"),
        "correlation": KT("meta__correlation_id"),
        "parent": KT("meta__parent_id"),
    }
    arguments = {
        "named": beginning("kwargs"),
        "unnamed": beginning("args"),
        "whole": Cast("kwargs", TextField()),
        "whole_unnamed": Cast("args", TextField()),
        "taken_along": beginning("meta"),
        "held_by": beginning(keys_without_links()),
        "result": beginning("return_value"),
        "log": Right("progress__log", LONGEST_TEXT),
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
            _("Taken along from where it was enqueued"),
            json_block(row["taken_along"], words),
        )
    if row.get("held_by") not in (None, "{}"):
        # Many of these names end in "key". They are ours, and hold no secret.
        unnamed = named_arguments(task, row["whole_unnamed"])
        held_by = masked_key(row["held_by"], words, row["whole"], unnamed)
        text = block(plain(held_by), LONGEST_TEXT)
        yield Text(_("Lock, limit, rate and predecessors"), text)
    if row.get("result") is not None:
        yield Text(_("Result"), json_block(row["result"], words))
    if row.get("log"):
        yield Text(_("Log"), visible(row["log"]))


def json_block(
    text: str, words: tuple[str, ...] = (), longest: int = LONGEST_TEXT
) -> str:
    return block(readable(text[:longest], words), longest, is_cut=len(text) > longest)


def progress_of(row: dict[str, Any]) -> Bar | None:
    if row.get("done") is None:
        return None
    message = excerpt(row["progress_message"], LONGEST_LINE)
    return bar(row["done"], row["total"], message)


def steps_of(job: Job, may_see_results: bool):
    """Return the latest steps of all lives, one more than the page shows."""
    rows = Step.objects.filter(job_id=job.pk).defer("return_value")
    if may_see_results:
        rows = rows.annotate(result=beginning("return_value", LONGEST_STEP_RESULT))
    words = sensitive_words(job.task)
    for step in rows.order_by("-life", "-finished_at", "-pk")[: MOST_STEPS + 1]:
        step.shown_name = excerpt(step.name, LONGEST_LINE)
        step.shown_end = exactly(step.finished_at)
        if may_see_results and step.result is not None:
            step.shown_result = json_block(step.result, words, LONGEST_STEP_RESULT)
        yield step


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
    attempt.shown_worker = excerpt(job.worker.name, LONGEST_LINE) if job.worker else ""
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
        attempt.shown_message = block(without_class(attempt), 2_000)
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
