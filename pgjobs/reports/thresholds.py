"""The limits of a monitoring system: what exceeds them is a problem."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .status import Overview


class Threshold(NamedTuple):
    """A limit that a feature adds: an option of `jobstatus`."""

    option: str
    help: str
    # Takes the database, the state and all options; only called if this one is given.
    exceeded: Callable[[str, Overview, dict[str, Any]], Iterator[str]] | None
    read: Callable[[str], Any]
    metavar: str = "N"
    default: Any = None

    @property
    def name(self) -> str:
        return self.option.removeprefix("--").replace("-", "_")
