"""Sessions that hold for long what workers need for moments."""

from collections.abc import Callable
from time import sleep

from django.utils.translation import gettext, gettext_lazy

from ..queue.held_locks import HeldLock, held_locks
from ..queue.statements import execute_on
from .remarks import Remark

LONGEST_TURN = 10.0  # seconds; no transaction of pgjobs holds such a lock for longer
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
        held = [each for each in held_locks(execute) if each.key in before]
    return [described(each) for each in held if is_old(each) or is_foreign(each)]


def is_old(lock: HeldLock) -> bool:
    return (lock.seconds or 0) > LONGEST_TURN


def is_foreign(lock: HeldLock) -> bool:
    """Whether no worker holds it, so that it is not one turn after the other."""
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
