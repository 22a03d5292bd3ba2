"""What was meant by a name of an option or a method that tasks do not have."""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache

from ..features import modules

BIND = "call task.bind(...), which keeps the arguments of a call"
# Options of a job, which `enqueue` does not take among the arguments.
OF_JOBS = frozenset(
    {"after", "batch", "database", "expires", "lock", "max_attempts", "on_conflict"}
    | {"priority", "queue_name", "run_after", "timeout", "unique", "unique_key"}
    | {"on_success", "on_failure"}
)


@cache
def words(kind: str) -> dict[str, str]:
    """Return, by the words of other queues, what features say of them."""
    return {
        word: text
        for module in modules("words")
        for word, text in getattr(module, kind).items()
    }


def meant(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Return, as a part of a sentence, which options were meant."""
    known = sorted(known)
    without = words("CURES")
    cures = [without[name] for name in sorted(unknown) if name in without]
    names = [nearest(name, known) for name in sorted(unknown) if name not in without]
    listed = " and ".join(repr(name) for name in names if name)
    cures += [f"did you mean {listed}?"] * bool(listed)
    return f" ({'; '.join(dict.fromkeys(cures))})" if cures else ""


def nearest(name: str, known: list[str]) -> str | None:
    if (option := words("OPTIONS").get(name)) in known:
        return option
    return next(iter(get_close_matches(name, known, n=1)), None)


def meant_argument(name: str, parameters: Iterable[str]) -> str:
    """Return what to do about an argument that is no parameter, or nothing."""
    if near := get_close_matches(name, list(parameters), n=1):
        return f" (did you mean {near[0]!r}?)"
    option = words("OPTIONS").get(name, name)
    if option not in OF_JOBS:
        return ""
    return f": options go into task.using({option}=...)"


def missing_attribute(task: object, name: str) -> AttributeError:
    """Return the error for an attribute that a task does not have."""
    methods = words("METHODS")
    cure = f"; {methods[name]}" if name in methods else ""
    return AttributeError(f"A task has no {name!r}{cure}.", name=name, obj=task)
