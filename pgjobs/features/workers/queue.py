"""Tells workers what operators want of them."""

from collections.abc import Iterable

from ...queue.statements import array, execute_on
from ...sql import statement


def order(database: str, ids: Iterable[int], wanted: str) -> int:
    """Ask workers to be quiet, to stop, or, with an empty text, to go on.

    Returns of how many that is new. A worker hears of it within a second, and at its
    next sign of life where notifications do not reach it.
    """
    parameters = {"ids": array(ids), "wanted": wanted}
    return len(execute_on(database)(statement("order"), parameters))
