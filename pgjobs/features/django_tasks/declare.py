"""Options of pgjobs for tasks of `django.tasks`.

They stand on the function, so that they are no obstacle where another backend runs it.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ...exceptions import InvalidTask
from ...tasks.options import JOB_OPTIONS, TASK_OPTIONS, check_known
from .backoff import check_backoff

F = TypeVar("F", bound=Callable)

ATTRIBUTE = "pgjobs_options"
# Django's own task has these, or nothing in Django's API corresponds to them.
LEFT_TO_DJANGO = {
    *("queue_name", "priority", "run_after", "dependencies", "write_all"),
    *("chunk", "chunk_by", "chunk_wait", "on_chunk_error"),
}
# Names that are discussed for Django, and that pgjobs' own tasks do not have. Every job
# is inserted in the caller's transaction, whatever `enqueue_on_commit` says.
ON_COMMIT = "enqueue_on_commit"
PROPOSED = {"metadata", ON_COMMIT}
DECLARABLE = TASK_OPTIONS - LEFT_TO_DJANGO
PER_JOB = JOB_OPTIONS - LEFT_TO_DJANGO


def task_options(**options: Any) -> Callable[[F], F]:
    """Give a task of `django.tasks` options of pgjobs.

    Stands between Django's decorator and the function:

        @task
        @task_options(max_attempts=5, timeout=60)
        def send(user_id): ...

    Returns what decorates the function. The `options` are those of pgjobs' own `@task`,
    but for `queue_name`, `priority`, `dependencies`, `write_all`, chunks and what makes
    a task recur. Raises InvalidTask.
    """
    check_declared("@task_options", options)

    def give(function: F) -> F:
        if not hasattr(function, "__code__"):
            raise InvalidTask(
                "@task_options takes a function, and stands below Django's @task, got "
                f"{function!r}."
            )
        setattr(function, ATTRIBUTE, {**options_of(function), **options})
        return function

    return give


def options_of(function: Callable) -> Mapping[str, Any]:
    """Return what `@task_options` said of the function."""
    return getattr(function, ATTRIBUTE, {})


def check_declared(where: str, options: Mapping[str, Any]) -> None:
    """Raise InvalidTask for what a task of Django's cannot declare."""
    check_known(where, options, DECLARABLE | {ON_COMMIT})
    if "backoff" in options:
        check_backoff(options["backoff"])
    if not isinstance(options.get(ON_COMMIT), bool | None):
        raise InvalidTask(
            f"{where}: {ON_COMMIT} must be True, False or None, got "
            f"{options[ON_COMMIT]!r}."
        )
    if options.get("on_conflict") == "skip":
        raise InvalidTask(
            f"{where} cannot have on_conflict='skip': enqueueing must return a result. "
            "'return' gives that of the other job."
        )
