"""The option that says which finished jobs are kept."""

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from django.core.exceptions import ImproperlyConfigured

from ...conf import KEEP, settings
from ...tasks.arguments import Signature
from ...tasks.option_checks import check_choice
from ...tasks.option_group import OptionGroup

Keep = Literal["all", "failed"]


@dataclass(frozen=True, kw_only=True)
class Keeping(OptionGroup):
    """The option of `@task(...)` and `.using(...)` for what becomes of a success."""

    #: With `"failed"`, a success is deleted as soon as nothing needs its row. `None`
    #: leaves it to `PGJOBS["KEEP"]`.
    keep: Keep | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep is not None:
            check_choice("keep", self.keep, KEEP)

    def fixed_columns(self) -> dict[str, Any]:
        return super().fixed_columns() | {"keep": self.keep}

    def definition(self, signature: Signature) -> dict[str, Any]:
        keep = self.keep or of_settings()
        return super().definition(signature) | ({"keep": keep} if keep else {})


def of_settings() -> str | None:
    """Return what the setting says, if it is not what NULL says."""
    try:
        return None if settings.KEEP == "all" else settings.KEEP
    except ImproperlyConfigured:  # as a system check says
        return None


GROUPS = (Keeping,)


class TaskOptions(TypedDict, total=False):
    keep: Keep


class JobOptions(TypedDict, total=False):
    keep: Keep | None
