"""A sentence for operators, and the page of the admin that shows or cures it."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from ..models.worker import Worker

PATIENCE = timedelta(seconds=60)  # before a delay counts as a problem


class Remark(NamedTuple):
    """A sentence about a problem.

    `model` is empty if there is no page. Without a `pk` the page is the list.
    """

    text: str
    model: str = ""
    pk: int | None = None
    filters: dict[str, Any] = {}  # of the list


class Seen(NamedTuple):
    """What the status has read already, for the remarks of features."""

    database: str
    now: datetime  # of the database
    alive: list[Worker]
