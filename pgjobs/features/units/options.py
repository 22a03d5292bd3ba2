"""The option for jobs that take several process units."""

from dataclasses import dataclass
from typing import Any, TypedDict

from ...conf import MOST_UNITS
from ...tasks.arguments import Signature
from ...tasks.option_checks import check_whole
from ...tasks.option_group import OptionGroup


@dataclass(frozen=True, kw_only=True)
class Units(OptionGroup):
    """The option of `@task(...)` and `.using(...)` for process units."""

    #: How many of `runjobs --units` the job takes while it runs.
    process_units: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.process_units is not None:
            check_whole("process_units", self.process_units, 1, MOST_UNITS)

    def fixed_columns(self) -> dict[str, Any]:
        return super().fixed_columns() | {"process_units": self.process_units}

    def definition(self, signature: Signature) -> dict[str, Any]:
        own = {"process_units": self.process_units} if self.process_units else {}
        return super().definition(signature) | own


GROUPS = (Units,)


class TaskOptions(TypedDict, total=False):
    process_units: int


class JobOptions(TypedDict, total=False):
    process_units: int | None
