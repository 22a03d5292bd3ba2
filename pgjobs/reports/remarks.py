"""A sentence for operators, and the page of the admin that shows or cures it."""

from datetime import timedelta
from typing import Any, NamedTuple

PATIENCE = timedelta(seconds=60)  # before a delay counts as a problem


class Remark(NamedTuple):
    """A sentence about a problem.

    `model` is empty if there is no page. Without a `pk` the page is the list.
    """

    text: str
    model: str = ""
    pk: int | None = None
    filters: dict[str, Any] = {}  # of the list
