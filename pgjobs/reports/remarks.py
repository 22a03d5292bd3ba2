"""A sentence for operators, and the page of the admin that shows or cures it."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ..models.worker import Worker

PATIENCE = timedelta(seconds=60)  # before a delay counts as a problem
PROBLEM, REMARK = "problem", "remark"  # levels


class Remark(NamedTuple):
    """A sentence about a problem, or about what operators should know.

    `model` is empty if there is no page. Without a `pk` the page is the list.
    """

    text: str
    model: str = ""
    pk: int | None = None
    filters: dict[str, Any] = {}  # of the list
    subject: str = ""  # what it is about, such as a task; one of its kind has the name
    kind: str = ""
    level: str = PROBLEM
    acknowledged: str = ""  # by whom, until when, and why

    @property
    def is_problem(self) -> bool:
        return self.level == PROBLEM and not self.acknowledged


class Seen(NamedTuple):
    """What the status has read already, for those who look for remarks."""

    database: str
    now: datetime  # of the database
    alive: list[Worker]
    workers: list[Worker] = []  # also those that were lost


class Alert(NamedTuple):
    """A kind of remark, and how it is found: an entry of a list of a feature."""

    kind: str  # a key of PGJOBS["ALERTS"]
    about: str  # what it says, for the reference
    look: Callable[[Seen, Any], Iterable[Remark]]  # called with the value
    level: str = PROBLEM
    value: Any = None  # the limit, unless the setting has another one
    read: Callable[[Any], Any] | None = None  # checks a value; None: it has no limit
