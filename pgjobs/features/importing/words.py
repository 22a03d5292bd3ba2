"""Names that other queues use, for messages that say what they are called here."""

from ...tasks.meant import BIND

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
