"""Django's task with options of pgjobs: what `@task` makes for this backend."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from django.utils import timezone

from ..tasks.django_options import DECLARABLE, PER_JOB
from .compat import InvalidTask, Task

EXTRAS = DECLARABLE | PER_JOB
NO_OPTIONS: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class PgJobsTask(Task):
    """A Django task that also takes options of pgjobs.

    `@task(max_attempts=5)` (from Django 6.1 on) and `.using(lock="x")` make it.
    """

    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __init__(
        self, *, options: Mapping[str, Any] = NO_OPTIONS, **declared: Any
    ) -> None:
        given = {name: declared.pop(name) for name in EXTRAS & declared.keys()}
        object.__setattr__(self, "options", {**options, **given} if given else options)
        # Validates the task. In a class with slots of its own, super() fails.
        Task.__init__(self, **declared)

    def using(self, *, run_after=None, **changes: Any) -> "PgJobsTask":
        """Return the task with other options for the jobs enqueued through it.

        Takes what Django's `using` takes, a timedelta as `run_after`, and the options
        of pgjobs that belong to a job. None leaves an option as it is.
        """
        changes = {name: value for name, value in changes.items() if value is not None}
        given = {name: changes.pop(name) for name in EXTRAS & changes.keys()}
        if wrong := given.keys() - PER_JOB:
            raise InvalidTask(
                f".using has no option {', '.join(sorted(map(repr, wrong)))}: it "
                "belongs to the task. Declare it by @task_options."
            )
        if isinstance(run_after, timedelta):
            run_after = timezone.now() + run_after
        if run_after is not None:
            changes["run_after"] = run_after
        return replace(self, **changes, options=with_given(self.options, given))


def with_given(
    options: Mapping[str, Any], given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return options with changes; the same object if there are none."""
    return {**options, **given} if given else options
