"""The options of `@task` for what its jobs depend on, and for `ALL`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from django.utils.translation import gettext_lazy as _

from ...exceptions import InvalidTask
from ...tasks.arguments import Signature, Stored
from ...tasks.option_checks import check_parameter, takes_any_name
from ...tasks.option_group import OptionGroup
from ...tasks.registry import registry
from .declare import Dependency, Same, needs_of, provided_by, provided_names
from .write_all import IN_JSON, expanded, insert_as_batch, names_of, values_of

if TYPE_CHECKING:
    from ...tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Dependencies(OptionGroup):
    """The option of `@task(...)` for what its jobs depend on."""

    for_jobs = False

    #: What must have succeeded lately before the job runs: a `Dependency`, or a list.
    dependencies: tuple[Dependency, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.dependencies
        several = given if isinstance(given, list | tuple) else (given,)
        for each in several:
            if not isinstance(each, Dependency):
                raise InvalidTask(
                    f"dependencies must be one Dependency or a list, got {each!r}."
                )
        object.__setattr__(self, "dependencies", tuple(several))

    def check(self, function: Callable) -> None:
        """Raise InvalidTask if `same` names no parameter of the function."""
        super().check(function)
        if not self.dependencies or takes_any_name(function):
            return
        for dependency in self.dependencies:
            for name, given in dependency.arguments.items():
                source = given.name or name if isinstance(given, Same) else None
                if source is not None:
                    check_parameter(f"{dependency!r}: {source!r}", source, function)

    def has_dependencies(self, task: "Task[..., Any, Any]") -> bool:
        """Whether its jobs depend on others, or others on them."""
        provided = registry.derived(provided_names)
        return bool(self.dependencies) or task.name in provided

    def dependencies_of(
        self, task: "Task[..., Any, Any]", stored: Stored
    ) -> dict[str, Any]:
        """Return what a job with these arguments needs, and what it provides.

        Raises InvalidArguments; UnknownTask if it depends on a task that is not here.
        """
        needs = needs_of(task, stored)
        provided = registry.derived(provided_names).get(task.name, {})
        key_form = task.signature.in_key_form(stored)
        return {
            "needs": [{"key": need.key, "within": need.seconds} for need in needs],
            "provides": provided_by(task.name, key_form, shown_of(task, provided)),
        }

    def definition(self, signature: Signature) -> dict[str, Any]:
        listed = [
            {"task": dependency.task_name, "seconds": dependency.seconds}
            for dependency in self.dependencies
        ]
        return {**super().definition(signature), "dependencies": listed}


def shown_of(
    task: "Task[..., Any, Any]", provided: dict[frozenset[str], float]
) -> dict[frozenset[str], float]:
    """Return what may be provided: no key is made of an encrypted argument."""
    return {
        names: seconds
        for names, seconds in provided.items()
        if not any(map(task.options.covers, names))
    }


@dataclass(frozen=True, kw_only=True)
class WriteAll(OptionGroup):
    """The option of `@task(...)` for parameters that take `ALL`."""

    for_jobs = False

    #: Names of parameters that take `ALL`: one job for each of their choices.
    write_all: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "write_all", names_of(self.write_all))

    def check(self, function: Callable) -> None:
        super().check(function)
        for name in self.write_all:
            check_parameter(f"write_all: {name!r}", name, function)

    def values(self, signature: Signature) -> dict[str, list]:
        """Return the values of each parameter that takes ALL, in their JSON form.

        Raises InvalidTask for a parameter that has no choices.
        """
        return {
            name: values_of(signature, name)
            for name in signature.parameters  # in their order, not in that of write_all
            if name in self.write_all
        }

    def enqueue_several(
        self, task: "Task[..., Any, Any]", args: tuple, kwargs: dict
    ) -> list | None:
        """Insert a job for each value if a parameter is ALL."""
        if not self.write_all:
            return super().enqueue_several(task, args, kwargs)
        values = self.values(task.signature)
        calls = expanded(task.signature, values, args, kwargs)
        if calls is None:
            return super().enqueue_several(task, args, kwargs)
        new_jobs = [task.bind(*some, **others).new_job for some, others in calls]
        return insert_as_batch(task, new_jobs)

    def words_of_calls(self, signature: Signature) -> dict[str, dict[str, Any]]:
        all_of_them = {IN_JSON: _("All: a job for each")}
        own = dict.fromkeys(self.values(signature), all_of_them)
        return super().words_of_calls(signature) | own

    def definition(self, signature: Signature) -> dict[str, Any]:
        values = self.values(signature)
        own = {"write_all": values} if values else {}
        return super().definition(signature) | own


GROUPS = (Dependencies, WriteAll)


class TaskOptions(TypedDict, total=False):
    """For type checkers. Overloads have `write_all`: results depend on it."""

    dependencies: Dependency | list[Dependency]
