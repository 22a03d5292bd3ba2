"""Which sessions hold an advisory lock that pgjobs holds only for moments.

Any role that may connect to the database can take these locks, and so can a process of
the project that froze. No work is lost then, but some of it stands still.
"""

from collections.abc import Callable
from time import sleep
from typing import NamedTuple

from django.utils.translation import gettext, gettext_lazy

from ...queue.statements import Execute, execute_on
from ...reports.remarks import Remark
from ...sql import statement

MOST_NAMED = 100
DECLARING = "declarations"
LONGEST_HOLD = 10.0  # seconds; no transaction of pgjobs holds such a lock for longer
SECOND_LOOK = 0.2  # seconds, after which a lock that was held for a moment is free

STOPPED = {
    "admission": gettext_lazy("locks, limits, rates and chains"),
    "dependencies": gettext_lazy("dependencies"),
    "late events": gettext_lazy("events that are delivered late"),
    "declarations": gettext_lazy("declarations of tasks, schedules and subscriptions"),
    "limited queue": gettext_lazy("a queue with a limit"),
    "process units": gettext_lazy("jobs that take process units"),
    "failover": gettext_lazy("starts of workers after a failover"),
    "notifications": gettext_lazy("notifications of new jobs"),
}


class HeldLock(NamedTuple):
    """A lock that a session holds, and how the session may be recognised."""

    pid: int  # of the session's process on the server
    kind: str  # what the lock is for: see held_locks.sql
    role: str
    application: str
    # Of its transaction. None: there is none, or it is not shown.
    seconds: float | None

    @property
    def key(self) -> tuple[int, str]:
        return self.pid, self.kind


def held_locks(execute: Execute) -> list[HeldLock]:
    """Return the locks that other sessions hold at this moment."""
    rows = execute(statement("held_locks"), {"limit": MOST_NAMED})
    return [HeldLock._make(row) for row in rows]


def held_lock_problems(database: str, pause: Callable = sleep) -> list[Remark]:
    """Name the sessions that keep others from working.

    A session whose transaction is not shown is looked at again after a moment: most
    locks are held for milliseconds.
    """
    execute = execute_on(database)
    held = held_locks(execute)
    if held and not all(is_old(each) for each in held):
        pause(SECOND_LOOK)
        before = {each.key for each in held}
        held = [lock for lock in held_locks(execute) if lock.key in before]
    return [described(each) for each in held if is_old(each) or is_foreign(each)]


def is_old(lock: HeldLock) -> bool:
    return (lock.seconds or 0) > LONGEST_HOLD


def is_foreign(lock: HeldLock) -> bool:
    """Whether no worker holds it, so that it is not one job after the other."""
    return not lock.application.startswith("pgjobs:")


def described(lock: HeldLock) -> Remark:
    text = gettext(
        "%(what)s stand still: session %(pid)d (role %(role)s, application "
        "%(application)s) holds their lock. End it with "
        "SELECT pg_terminate_backend(%(pid)d)."
    )
    values = {
        "what": str(STOPPED[lock.kind]),
        "pid": lock.pid,
        "role": lock.role or "?",
        "application": lock.application or "?",
    }
    text %= values
    return Remark(text[:1].upper() + text[1:])
