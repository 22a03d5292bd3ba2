"""What tasks say of the names of their arguments. `tasks/sensitive.py` answers."""

from collections.abc import Iterable
from typing import Protocol

Words = tuple[str, ...]


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
