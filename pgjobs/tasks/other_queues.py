"""Names that other queues use, for messages that say what they are called here."""

from collections.abc import Iterable
from difflib import get_close_matches

# Options.
OPTIONS = {
    "autoretry_for": "retry_on",
    "countdown": "run_after",
    "delay": "run_after",
    "eta": "run_after",
    "job_timeout": "timeout",
    "max_retries": "max_attempts",
    "period": "every",
    "queue": "queue_name",
    "queueing_lock": "unique_key",
    "rate_limit": "rate",
    "retries": "max_attempts",
    "retry": "max_attempts",
    "retry_backoff": "backoff",
    "schedule_at": "run_after",
    "time_limit": "timeout",
}
# Methods of a task that enqueue it.
ENQUEUEING = ("apply_async", "defer", "delay", "enqueue_on_commit", "s", "send", "si")


def meant(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Return, as a part of a sentence, which options were meant."""
    known = sorted(known)
    names = [nearest(name, known) for name in sorted(unknown)]
    listed = " and ".join(repr(name) for name in names if name)
    return f" (did you mean {listed}?)" if listed else ""


def nearest(name: str, known: list[str]) -> str | None:
    if OPTIONS.get(name) in known:
        return OPTIONS[name]
    return next(iter(get_close_matches(name, known, n=1)), None)


def missing_attribute(task: object, name: str) -> AttributeError:
    """Return the error for an attribute that a task does not have."""
    cure = "; call enqueue(task, ...) or task.enqueue(...)" * (name in ENQUEUEING)
    return AttributeError(f"A task has no {name!r}{cure}.", name=name, obj=task)
