"""Functions whose hints are text: `from __future__ import annotations`."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from nowhere import Unknown


# fmt: off
# ruff: noqa: F821, RUF013, UP037  (a choice is no hint that linters know)
def function(day: date, format: ["pdf", "csv"] = "pdf", later: list[Later] = None): ...
# fmt: on


def function_with_unknown_result(a: int) -> Unknown: ...


Later = Literal["soon", "never"]
