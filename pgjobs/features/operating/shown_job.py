"""What `jobs show` tells of a job: all that its page in the admin tells."""

import json
from collections.abc import Iterator
from typing import Any

from django.db.models import F, Func, TextField
from django.db.models.functions import Cast, Left, Right

from ...base.moments import instant
from ...features import entries
from ...models.attempt import Attempt
from ...models.audit_entry import AuditEntry
from ...models.job import Job
from ...models.job_choices import Status
from ...models.predecessor import Predecessor
from ...reports.json_text import masked_result, on_one_line, plain
from ...reports.reasons import reasons, turn_of
from ...reports.secrets import masked_key
from ...reports.task_words import OWN, Words, with_own
from ...reports.texts import block, one_line
from ...tasks.sensitive import named_arguments, sensitive_words
from ..job_pages.job_rows import TEXTS, json_object, some_rows
from .choosing import moment
from .log_lines import in_local_time

LONGEST_TEXT = 20_000
# But for what says which of the other values are not shown.
KEYS = Func(F("keys"), template="(%(expressions)s - '{masked,encrypted}'::text[])")
MOST_ATTEMPTS = 20
MOST_ACTS = 20
LOOKED_AT = 5_000  # of the newest acts: only their time has an index
MOST_LINKS = 20
COLUMNS = ("worker_name", "life", "max_attempts", "crashes", "max_crashes", "timeout")
TIMES = {
    "enqueued_at": "enqueued",
    "run_after": "due",
    "expires_at": "expires",
    "cancel_requested_at": "asked to cancel",
    "started_at": "first started",
    "last_attempted_at": "last started",
    "finished_at": "ended",
}


def text_of(name: str) -> Left:
    return Left(Cast(name, TextField()), LONGEST_TEXT + 1)


def more_of(job: Job) -> dict[str, Any]:
    """Return what the row holds beside what lists show, its JSON as masked text."""
    jobs = Job.objects.using(job._state.db).filter(pk=job.pk)
    row = jobs.values(
        *(*COLUMNS, "process_units", "unique_key", "expires_at", "cancel_requested_at"),
        own=OWN,
        worker_now=F("worker__name"),
        result=text_of("return_value"),
        unnamed=text_of("args"),
        named=Cast("kwargs", TextField()),
        keys_text=Left(Cast(KEYS, TextField()), LONGEST_TEXT + 1),
        meta_text=text_of("meta"),
        done=F("progress__done"),
        total=F("progress__total"),
        message=F("progress__message"),
        reported_at=F("progress__updated_at"),
        log=Right("progress__log", LONGEST_TEXT),
    ).first()
    if row is None:  # it has gone meanwhile
        return {}
    words = with_own(sensitive_words(job.task), row.pop("own"))
    return row | masked_texts(job.task, row, words)


def masked_texts(task: str, row: dict[str, Any], words: Words) -> dict[str, Any]:
    """Return the texts of a row that may hold sensitive values, without these."""
    arguments = (row["named"], named_arguments(task, row["unnamed"] or "[]"))
    shown = {}
    if row["result"] is not None:
        shown["result"] = on_one_line(masked_result(row["result"], words), words)
    if row["unnamed"] not in (None, "[]"):
        shown["unnamed"] = on_one_line(arguments[1], words)
    for name in ("keys_text", "unique_key"):
        if row[name] is not None:
            shown[name] = masked_key(row[name], words, *arguments)
    if row["meta_text"] is not None:
        shown["meta_text"] = on_one_line(row["meta_text"], words)
    return shown


def lines_of(alias: str, job: Job) -> Iterator[str]:
    """Yield the lines about a job: facts first, then attempts, then its log."""
    (row,) = some_rows(alias, [job.pk], TEXTS, sensitive_words)
    more = more_of(job)
    yield f"{one_line(str(job))} {job.status}"
    why = reasons(alias, [job]).get(job.pk) or turn_of(alias, job)
    if why is not None:
        title = "running" if job.status == Status.RUNNING else "why it does not run"
        yield f"{title}: {one_line(why.text)}"
    if row["reason"]:
        yield f"reason: {block(row['reason'], LONGEST_TEXT)}"
    yield from facts(row, more)
    yield from texts(row, more)
    for section in entries("job_sections", "SECTIONS"):
        yield from section(alias, job)
    yield from links_of(alias, job)
    yield from acts_on(alias, job)
    yield from attempts_in_words(job, more)
    if more.get("log"):
        yield f"\nlog ('jobs tail {job.pk}' follows it):"
        yield block(in_local_time(more["log"]), LONGEST_TEXT)


def facts(row: dict[str, Any], more: dict[str, Any]) -> Iterator[str]:
    yield f"queue: {one_line(row['queue_name'])}, priority {row['priority']}"
    tries = f"attempts: {row['attempts']}, failures: {row['failures']} of "
    tries += f"{more.get('max_attempts')}"
    if more.get("crashes"):
        tries += f", workers lost: {more['crashes']} of {more['max_crashes']}"
    yield tries if more.get("life", 1) == 1 else f"{tries}, life: {more['life']}"
    for name, word in TIMES.items():
        if (time := row.get(name) or more.get(name)) is not None:
            yield f"{word}: {moment(time)}"
    if worker := more.get("worker_now") or more.get("worker_name"):
        yield f"worker: {one_line(worker)}"
    if more.get("timeout"):
        yield f"timeout: {more['timeout']:g} s"
    if more.get("process_units"):
        yield f"process units: {more['process_units']}"
    if row["batch_id"]:
        yield f"batch: {row['batch_id']}"
    if more.get("done") is not None:
        yield f"progress: {progress_of(more)}"


def progress_of(more: dict[str, Any]) -> str:
    done, total = more["done"], more["total"]
    text = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    if total:
        text += f" ({done / total:.0%})"
    message = one_line(more["message"] or "")
    text += f", {message}" if message else ""
    return f"{text}, reported {moment(more['reported_at'])}"


def texts(row: dict[str, Any], more: dict[str, Any]) -> Iterator[str]:
    yield f"arguments: {shown_json(row['arguments'])}"
    titles = {
        "unnamed": "unnamed arguments",
        "result": "result",
        "unique_key": "unique key",
        "keys_text": "lock, limit, rate and predecessors",
        "meta_text": "taken along",
    }
    for name, title in titles.items():
        if more.get(name) not in (None, "", "{}"):
            is_json = name != "unique_key"
            text = shown_json(more[name]) if is_json else one_line(more[name])
            yield f"{title}: {text}"


def shown_json(text: str) -> str:
    return block(plain(text), LONGEST_TEXT)


def links_of(alias: str, job: Job) -> Iterator[str]:
    """Yield a line for what comes before the job, and one for what comes after it."""
    links = Predecessor.objects.using(alias)
    before = links.filter(job_id=job.pk).order_by("pk")
    after = links.filter(predecessor_id=job.pk).order_by("pk")
    names = [
        f"batch {batch}" if id is None else f"job {id}"
        for id, batch in before.values_list("predecessor_id", "batch_id")[:MOST_LINKS]
    ]
    if names:
        yield f"runs after: {', '.join(names)}"
    if ids := list(after.values_list("job_id", flat=True)[:MOST_LINKS]):
        yield f"before: {', '.join(f'job {id}' for id in ids)}"


def acts_on(alias: str, job: Job) -> Iterator[str]:
    """Yield what people did to this very job, the latest first."""
    acts = AuditEntry.objects.using(alias)
    later = acts.filter(at__gte=job.enqueued_at)
    newest = later.order_by("-at").values("pk")[:LOOKED_AT]
    its_own = acts.filter(pk__in=newest, model="job", object_id=job.pk)
    for entry in its_own.order_by("-pk")[:MOST_ACTS]:
        note = f": {one_line(entry.note)}" if entry.note else ""
        yield f"{entry.act} by {one_line(entry.actor)}, {moment(entry.at)}{note}"


# Attempts


def attempts_in_words(job: Job, more: dict[str, Any]) -> Iterator[str]:
    """Yield the attempts, the newest first; the row alone knows one that succeeded."""
    if job.status in (Status.SUCCESSFUL, Status.RUNNING) and job.last_attempted_at:
        worker = more.get("worker_now") or more.get("worker_name") or "?"
        end = f", {moment(job.finished_at)}" if job.finished_at else ""
        duration = took(job.last_attempted_at, job.finished_at)
        yield (
            f"\nattempt {job.attempts} of life {job.life}: {job.status}"
            f"{duration}{end}, on {one_line(worker)}"
        )
    for attempt in attempts_of(job)[::-1]:
        yield (
            f"\nattempt {attempt.number} of life {attempt.life}: {attempt.outcome}"
            f"{took(attempt.started_at, attempt.finished_at)}, "
            f"{moment(attempt.finished_at)}, on {one_line(attempt.worker_name)}"
        )
        if text := attempt.traceback or attempt.message:
            yield block(text, LONGEST_TEXT).rstrip()


def took(start, end) -> str:
    if start is None or end is None:
        return ""
    return f" after {(instant(end) - instant(start)).total_seconds():.3f} s"


def attempts_of(job: Job) -> list[Attempt]:
    """Return the latest attempts on record, the first of them first."""
    attempts = Attempt.objects.using(job._state.db).filter(job_id=job.pk)
    return list(attempts.order_by("-life", "-number")[:MOST_ATTEMPTS])[::-1]


# JSON


def json_of(alias: str, job: Job) -> str:
    """Return one JSON object with all that is known of the job."""
    (row,) = some_rows(alias, [job.pk], TEXTS, sensitive_words)
    more = more_of(job)
    members = {name: json.dumps(more.get(name)) for name in COLUMNS}
    members["progress"] = json.dumps(
        {name: more.get(name) for name in ("done", "total", "message")}
    )
    members["log"] = json.dumps(more.get("log") or "")
    # They are JSON already, which Python need not be able to read.
    members["return_value"] = whole(more.get("result"))
    members["keys"] = whole(more.get("keys_text"))
    attempts = [attempt_as_json(each) for each in attempts_of(job)]
    members["attempts_made"] = json.dumps(attempts)
    added = "".join(f', "{name}": {text}' for name, text in members.items())
    return f"{json_object(row)[:-1]}{added}}}"


def whole(text: str | None) -> str:
    """Return a JSON text; null for one that was cut."""
    return text if text is not None and len(text) <= LONGEST_TEXT else "null"


def attempt_as_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "life": attempt.life,
        "number": attempt.number,
        "outcome": attempt.outcome,
        "worker": attempt.worker_name,
        "started_at": attempt.started_at and instant(attempt.started_at).isoformat(),
        "finished_at": instant(attempt.finished_at).isoformat(),
        "exception_class": attempt.exception_class,
        "message": attempt.message,
        "traceback": attempt.traceback,
    }
