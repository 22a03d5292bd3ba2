"""Names that other queues use, for messages that say what they are called here."""

from collections.abc import Iterable
from difflib import get_close_matches

# Options.
OPTIONS = {
    "actor_name": "name",
    "at_front": "priority",
    "autoretry_for": "retry_on",
    "countdown": "run_after",
    "default_retry_delay": "backoff",
    "delay": "run_after",
    "dont_autoretry_for": "no_retry_on",
    "eta": "run_after",
    "hard_time_limit": "timeout",
    "job_timeout": "timeout",
    "link": "on_success",
    "link_error": "on_failure",
    "max_age": "expires",
    "max_retries": "max_attempts",
    "period": "every",
    "queue": "queue_name",
    "queueing_lock": "unique_key",
    "rate_limit": "rate",
    "retries": "max_attempts",
    "retry": "max_attempts",
    "retry_backoff": "backoff",
    "retry_delay": "backoff",
    "retry_for": "retry_on",
    "schedule_at": "run_after",
    "schedule_in": "run_after",
    "soft_time_limit": "timeout",
    "task_id": "unique_key",
    "throws": "no_retry_on",
    "time_limit": "timeout",
}
ALWAYS_SO = "leave it out: a job stays in the table until its outcome is stored"
RUNNING = "leave it out: current_job() is the running job"
SPREAD = "say backoff=exponential(cap=..., jitter=...)"
# Options that have no counterpart, and what to do instead.
CURES = {
    "acks_late": ALWAYS_SO,
    "base": "leave it out: a task is a function",
    "bind": RUNNING,
    "ignore_result": "leave it out: return None",
    "pass_context": RUNNING,
    "reject_on_worker_lost": "say max_crashes=1",
    "result_ttl": 'set PGJOBS["RETENTION"]',
    "retry_backoff_max": SPREAD,
    "retry_jitter": SPREAD,
    "serializer": "leave it out: arguments are JSON",
    "store_results": "leave it out: results are kept",
    "task_acks_late": ALWAYS_SO,
    "track_started": "leave it out: a running job is RUNNING",
}
ENQUEUE = "call enqueue(task, ...) or task.enqueue(...)"
BIND = "call task.bind(...), which keeps the arguments of a call"
EACH = "call enqueue_many([task.bind(...) for ...])"
# Methods and attributes of a task.
METHODS = {
    "apply": "call task(...) as the function that it is",
    "apply_async": "call enqueue(task.using(run_after=...), ...)",
    "async_defer": "call await aenqueue(task, ...)",
    "batch_defer": EACH,
    "chunks": EACH,
    "configure": "call task.using(...)",
    "defer": ENQUEUE,
    "defer_async": "call await aenqueue(task, ...)",
    "delay": ENQUEUE,
    "delay_on_commit": f"{ENQUEUE}: the job commits with your transaction",
    "enqueue_on_commit": f"{ENQUEUE}: the job commits with your transaction",
    "enqueue_in": "call enqueue(task.using(run_after=timedelta(...)), ...)",
    "enqueue_at": "call enqueue(task.using(run_after=moment), ...)",
    "apply_async_on_commit": f"{ENQUEUE}: the job commits with your transaction",
    "map": EACH,
    "message": BIND,
    "options": "call task.using(...)",
    "request": "current_job() is the running job",
    "retry": "raise Retry(after=...) in the task",
    "s": BIND,
    "schedule": "call enqueue(task.using(run_after=...), ...)",
    "send": ENQUEUE,
    "send_with_options": "call enqueue(task.using(...), ...)",
    "si": BIND,
    "starmap": EACH,
    "subtask": BIND,
    "update_state": "call current_job().progress(...) in the task",
}
# Options of a job, which `enqueue` does not take among the arguments.
OF_JOBS = frozenset(
    {"after", "batch", "database", "expires", "lock", "max_attempts", "on_conflict"}
    | {"priority", "queue_name", "run_after", "timeout", "unique", "unique_key"}
    | {"on_success", "on_failure"}
)


def meant(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Return, as a part of a sentence, which options were meant."""
    known = sorted(known)
    cures = [CURES[name] for name in sorted(unknown) if name in CURES]
    names = [nearest(name, known) for name in sorted(unknown) if name not in CURES]
    listed = " and ".join(repr(name) for name in names if name)
    cures += [f"did you mean {listed}?"] * bool(listed)
    return f" ({'; '.join(dict.fromkeys(cures))})" if cures else ""


def nearest(name: str, known: list[str]) -> str | None:
    if OPTIONS.get(name) in known:
        return OPTIONS[name]
    return next(iter(get_close_matches(name, known, n=1)), None)


def meant_argument(name: str, parameters: Iterable[str]) -> str:
    """Return what to do about an argument that is no parameter, or nothing."""
    if near := get_close_matches(name, list(parameters), n=1):
        return f" (did you mean {near[0]!r}?)"
    option = OPTIONS.get(name, name)
    if option not in OF_JOBS:
        return ""
    return f": options go into task.using({option}=...)"


def missing_attribute(task: object, name: str) -> AttributeError:
    """Return the error for an attribute that a task does not have."""
    cure = f"; {METHODS[name]}" if name in METHODS else ""
    return AttributeError(f"A task has no {name!r}{cure}.", name=name, obj=task)
