"""What tasks say of the names of their arguments. `tasks/sensitive.py` answers."""

import json
from collections.abc import Iterable
from typing import Protocol

from django.db.models.fields.json import KT

from ..base.mask_names import MASKED

Words = tuple[str, ...]
OWN = KT(f"keys__{MASKED}")  # what `with_own` takes, of a row


def with_own(words: Words, masked: str | None) -> Words:
    """Return the words of a task with those of one of its jobs, a JSON text."""
    try:
        names = json.loads(masked or "[]")
    except (ValueError, RecursionError):
        return words
    named = names if isinstance(names, list) else ()
    return (*words, *(name for name in named if name and isinstance(name, str)))


class TaskWords(Protocol):
    """Knows what tasks call sensitive, or harmless."""

    def of(self, tasks: Iterable[str]) -> dict[str, Words]:
        """Return the words of these tasks, by their names."""

    def of_all(self) -> dict[str, Words]:
        """Return the words of all tasks, by each of their names and aliases."""

    def with_secret_key(self, kind: str) -> set[str]:
        """Return the names of the tasks that make this key of a masked argument."""

    def named(self, task: str, args: str) -> str:
        """Return the text of arguments by position as that of an object."""


class NoTasks:
    def of(self, tasks: Iterable[str]) -> dict[str, Words]:
        return dict.fromkeys(tasks, ())

    def of_all(self) -> dict[str, Words]:
        return {}

    def with_secret_key(self, kind: str) -> set[str]:
        return set()

    def named(self, task: str, args: str) -> str:
        return args


class Known:
    """Where reports ask."""

    tasks: TaskWords = NoTasks()
