"""What a bug is: texts of the package, replaced by others."""

from typing import NamedTuple

STOP = "stop a worker for longer than its lease"


class Bug(NamedTuple):
    """What is changed, and which verdict must notice."""

    name: str
    verdict: str
    edits: tuple[tuple[str, str], ...]
    orders: str = "plain,several"
    faults: str = "none"
    seconds: int = 12

    @property
    def backlog(self) -> int:
        """Few long jobs, so that a free worker takes over what another one lost."""
        return 3 if "long" in self.orders else 200
