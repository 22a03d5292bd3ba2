"""`result`, `results` and `outcomes`: what stands for what jobs have returned."""

from dataclasses import dataclass
from typing import Any, NoReturn

from ...tasks.later import Later
from ...tasks.task import BoundTask

WHEN = "it is known only when the job begins"


@dataclass(frozen=True)
class Outcome:
    """How a job before has ended: what `outcomes` stands for, or a list of them.

    - `id`: of the job.
    - `status`: SUCCESSFUL, FAILED or CANCELLED; GONE if the job was deleted. What
      `on_failure` of a group gets also has jobs that have not ended.
    - `value`: what it returned, as read from its JSON.
    - `reason`: why it did not succeed.
    """

    id: int
    status: str
    value: Any = None
    reason: str = ""


class Placeholder(Later):
    """What stands for a value that jobs before will have returned.

    `result["key"]` stands for a part of it, `result.name` for what the job of that name
    in `after={...}` returns. It can do nothing else, because there is no value yet.
    """

    __slots__ = ("_bound", "_kind", "_name", "_path")

    _bound: BoundTask | None
    _kind: str
    _name: str | None
    _path: tuple[str | int, ...]

    def __init__(
        self,
        kind: str,
        name: str | None = None,
        path: tuple[str | int, ...] = (),
        bound: BoundTask | None = None,
    ):
        values = {"_kind": kind, "_name": name, "_path": path, "_bound": bound}
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    def __getattr__(self, name: str) -> "Placeholder":
        if name.startswith("_"):
            raise AttributeError(name)
        if self._name is not None or self._path or self._bound is not None:
            raise TypeError(f"{self!r} has no attributes: say {self!r}[{name!r}].")
        return Placeholder(self._kind, name)

    def __getitem__(self, key: Any) -> "Placeholder":
        if self._kind != "result":
            raise TypeError(f"{self!r} has no keys: the task gets all of them.")
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise TypeError(
                f"{self!r}[...] takes a text or a whole number, got {key!r}."
            )
        return Placeholder(self._kind, self._name, (*self._path, key), self._bound)

    def __repr__(self) -> str:
        begin = self._kind if self._name is None else f"{self._kind}.{self._name}"
        if self._bound is not None:
            begin = f"{self._bound!r}.result"
        return begin + "".join(f"[{key!r}]" for key in self._path)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise TypeError(f"{self!r} cannot be changed.")

    def __reduce__(self) -> tuple:
        return Placeholder, (self._kind, self._name, self._path, self._bound)

    __hash__ = object.__hash__


def refusing(name: str) -> Any:
    def refuse(self, *given: Any) -> NoReturn:
        raise TypeError(
            f"{self!r} stands for a value: {WHEN}. Pass it on alone, as an argument, "
            "and do the rest in the task."
        )

    refuse.__name__ = name
    return refuse


REFUSED = (
    *("iter", "next", "len", "contains", "bool", "str", "format", "call", "index"),
    *("int", "float", "eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs"),
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "mod"),
    *("rmod", "floordiv", "rfloordiv", "and", "rand", "or", "ror", "pow", "rpow"),
)
for each in REFUSED:
    setattr(Placeholder, f"__{each}__", refusing(f"__{each}__"))

# For type checkers they fit every parameter.
result: Any = Placeholder("result")
results: Any = Placeholder("results")
outcomes: Any = Placeholder("outcomes")
