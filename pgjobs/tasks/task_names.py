"""The names of tasks."""

import re
from collections.abc import Iterable
from typing import Any

from ..exceptions import InvalidTask

LONGEST_NAME = 200
# No control characters, and no lone surrogates, which PostgreSQL cannot store.
TASK_NAME = re.compile(r"[^\s,\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")


def names_of(aliases) -> tuple[str, ...]:
    if isinstance(aliases, str) or not isinstance(aliases, Iterable):
        raise InvalidTask(f"aliases must be a tuple of names, got {aliases!r}.")
    return tuple(check_task_name("an alias", alias) for alias in aliases)


def check_task_name(what: str, name: Any) -> str:
    if not isinstance(name, str) or not TASK_NAME.fullmatch(name):
        raise InvalidTask(
            f"{what} of a task must be 1 to {LONGEST_NAME} characters without spaces "
            f"or commas, got {name!r}."
        )
    return name
