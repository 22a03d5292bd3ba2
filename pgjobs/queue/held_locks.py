"""Which sessions hold an advisory lock that pgjobs holds only for moments.

Any role that may connect to the database can take these locks, and so can a process of
the project that froze. No work is lost then, but some of it stands still.
"""

from typing import NamedTuple

from ..sql import statement
from .statements import Execute

MOST_NAMED = 100
DECLARING = "declarations"


class HeldLock(NamedTuple):
    """A lock that a session holds, and how the session may be recognised."""

    pid: int  # of the session's process on the server
    kind: str  # what the lock is for: see sql/upkeep/held_locks.sql
    role: str
    application: str
    seconds: (
        float | None
    )  # of its transaction. None: there is none, or it is not shown.

    @property
    def key(self) -> tuple[int, str]:
        return self.pid, self.kind


def held_locks(execute: Execute) -> list[HeldLock]:
    """Return the locks that other sessions hold at this moment."""
    rows = execute(statement("held_locks"), {"limit": MOST_NAMED})
    return [HeldLock._make(row) for row in rows]
