"""Django's tasks as tasks of pgjobs, which workers can run."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..base.moments import aware
from ..queue.new_job import NewJob
from ..tasks.arguments import Stored
from ..tasks.options import Options
from ..tasks.task import Task as NativeTask
from .body import UnstorableResult, make_body
from .compat import Task
from .plain_signature import PlainSignature

SEPARATOR = ":"
NOTHING_SAID = ("default", 0, None)  # about queue, priority and time


@dataclass(frozen=True, kw_only=True)
class AdoptedOptions(Options):
    """Options with the defaults of `django.tasks`, which knows no second attempt."""

    max_attempts: int = 1

    def retries(self, error: BaseException) -> bool:
        # Another attempt would do again what this one has done.
        return not UnstorableResult.caused(error) and super().retries(error)


class AdoptedTask(NativeTask[..., Any, Any]):
    """A task of `django.tasks`, as a backend runs it.

    Jobs have the name "<alias of the backend>:<path of the function>".
    """

    is_late = False  # workers find the function by its path

    def __init__(
        self, declared: Task, alias: str, sender: type, options: AdoptedOptions
    ):
        self.declared = declared
        self.alias = alias
        self.sender = sender  # of Django's signals
        self.given_name = name_of(alias, declared.module_path)
        self.aliases = ()
        self.options = options
        self.recurrences = []
        self.subscriptions = []
        self.given_options = frozenset()
        self.original = self
        self.function = make_body(self)
        options.check(self.function)

    @cached_property
    def signature(self) -> PlainSignature:  # type: ignore[override]
        return PlainSignature(self.name, self.declared)

    def new_job(self, task: Task, stored: Stored, args: tuple, kwargs: dict) -> NewJob:
        """Return the job of an enqueued task. Raises InvalidTask, InvalidArguments."""
        chosen = self.chosen(getattr(task, "options", {}))
        job = chosen.options.new_job(self.name, stored)
        if (task.queue_name, task.priority, task.run_after) != NOTHING_SAID:
            job = job._replace(
                queue_name=task.queue_name,
                priority=int(task.priority),
                run_after=task.run_after and aware(task.run_after),
            )
        if chosen.options.has_keys:
            job = job._replace(**chosen.key_columns(stored, args, kwargs))
        return job

    def chosen(self, options: Mapping[str, Any]) -> "AdoptedTask":
        """Return the task with what `.using` has changed since its declaration."""
        declared = getattr(self.declared, "options", {})
        if options is declared or not options:
            return self
        changes = {
            name: value
            for name, value in options.items()
            if name not in declared or declared[name] is not value
        }
        return self.using(**changes) if changes else self  # type: ignore[return-value]

    def key_columns(self, stored: Stored, args: tuple, kwargs: dict) -> dict[str, Any]:
        named = self.signature.by_name(args, kwargs)
        return super().key_columns(named, args, kwargs)


def name_of(alias: str, path: str) -> str:
    return f"{alias}{SEPARATOR}{path}"
