"""The state machine, said once more: what may follow what, and what changes with it.

Written from the documentation, not from the product's code. A change of a job is legal
if one line of TRANSITIONS allows it: from one of its sources to one of its targets,
with exactly these counters changed, and its guard true.
"""

from collections.abc import Callable
from typing import NamedTuple

from .evidence import FINISHED, POISON, QUEUED, Version

COUNTERS = (
    "attempts",
    "failures",
    "crashes",
    "life",
    "token",
    "max_attempts",
    "max_crashes",
    "task",
    "mark",
)
OPERATORS = ("chaos:operator", "chaos:harness")
LIVE = (*QUEUED, "RUNNING")
RUNNING = ("RUNNING",)
SUSPENDED = ("WAITING", "SCHEDULED")
# Of a job that its worker may not have begun.
REASONS_OF_LOSS = {
    **dict.fromkeys(QUEUED, "Worker lost, perhaps before the job began."),
    "CANCELLED": "Cancelled; its worker was lost.",
}
Guard = Callable[[Version, Version], bool]


class Transition(NamedTuple):
    name: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    changed: frozenset[str]
    guard: Guard


def by_operator(old: Version, new: Version) -> bool:
    return new.actor.startswith(OPERATORS)


def is_not_cancelled(old: Version, new: Version) -> bool:
    return old.cancel_requested_at is None


def is_cancelled(old: Version, new: Version) -> bool:
    return old.cancel_requested_at is not None


def has_new_token(old: Version, new: Version) -> bool:
    return new.token > old.token


def is_claim(old: Version, new: Version) -> bool:
    return (
        new.attempts == old.attempts + 1
        and has_new_token(old, new)
        and new.worker_id is not None
        and new.waiting_for is None
    )


def may_skip_ready(old: Version, new: Version) -> bool:
    """Whether an admission may claim the job, rather than leave it to a fetch."""
    has_one_crash_left = old.crashes + 1 >= old.max_crashes
    return is_claim(old, new) and old.units == 1 and not has_one_crash_left


def joins_call(old: Version, new: Version) -> bool:
    """Whether a job that waits for others of its task joins their call."""
    return is_claim(old, new) and new.is_companion and old.attempts == 0


def counts_failure(old: Version, new: Version) -> bool:
    return new.failures == old.failures + 1 and is_not_cancelled(old, new)


def may_try_again(old: Version, new: Version) -> bool:
    return counts_failure(old, new) and new.failures < new.max_attempts


def counts_crash(old: Version, new: Version) -> bool:
    # The loss of a job that may have waited in its worker counts with the next one.
    counted = (1, 2) if old.crashes == 0 and old.attempts > 1 else (1,)
    is_own = old.members == 1  # or nobody knows whose it is
    return is_own and new.crashes - old.crashes in counted and has_new_token(old, new)


def may_have_waited(old: Version, new: Version) -> bool:
    """Whether the worker was lost before a job that it had prefetched began."""
    return (
        has_new_token(old, new)
        and (old.attempts, old.crashes) == (1, 0)
        and new.reason == REASONS_OF_LOSS[new.status]
    )


def halves_call(old: Version, new: Version) -> bool:
    """Whether the worker was lost under a call of several, which counts for none."""
    return old.members > 1 and has_new_token(old, new)


def survives_crash(old: Version, new: Version) -> bool:
    return (
        counts_crash(old, new)
        and new.crashes < new.max_crashes
        and is_not_cancelled(old, new)
    )


def dies_of_crash(old: Version, new: Version) -> bool:
    return (
        counts_crash(old, new)
        and new.crashes >= new.max_crashes
        and is_not_cancelled(old, new)
    )


def suspends(old: Version, new: Version) -> bool:
    """Whether a job sleeps or waits, which counts its failures and crashes anew."""
    return is_not_cancelled(old, new) and (new.failures, new.crashes) == (0, 0)


def begins_life(old: Version, new: Version) -> bool:
    return (
        new.life == old.life + 1
        and (new.attempts, new.failures, new.crashes) == (0, 0, 0)
        and new.cancel_requested_at is None
        and by_operator(old, new)
    )


def transition(
    name: str,
    sources: tuple[str, ...],
    targets: tuple[str, ...],
    guard: Guard,
    *changed: str,
) -> Transition:
    return Transition(name, sources, targets, frozenset(changed), guard)


TRANSITIONS = [
    transition("claim", ("READY",), RUNNING, is_claim, "attempts", "token"),
    transition("claim", ("WAITING",), RUNNING, may_skip_ready, "attempts", "token"),
    transition("claim", ("SCHEDULED",), RUNNING, joins_call, "attempts", "token"),
    transition("succeed", RUNNING, ("SUCCESSFUL",), lambda old, new: True),
    transition("retry later", RUNNING, QUEUED, may_try_again, "failures"),
    transition("fail", RUNNING, ("FAILED",), counts_failure, "failures"),
    transition(
        "fail: an unknown task",
        RUNNING,
        ("FAILED",),
        lambda old, new: "No task registered" in new.reason,
    ),
    transition("snooze or release", RUNNING, QUEUED, is_not_cancelled),
    transition("suspend", RUNNING, SUSPENDED, suspends, "failures"),
    transition("suspend", RUNNING, SUSPENDED, suspends, "crashes"),
    transition("suspend", RUNNING, SUSPENDED, suspends, "failures", "crashes"),
    transition("acknowledge cancel", RUNNING, ("CANCELLED",), is_cancelled),
    transition("acknowledge cancel", RUNNING, ("CANCELLED",), is_cancelled, "failures"),
    transition("rescue", RUNNING, QUEUED, survives_crash, "crashes", "token"),
    transition("rescue", RUNNING, (*QUEUED, "CANCELLED"), may_have_waited, "token"),
    transition("rescue", RUNNING, (*QUEUED, "CANCELLED"), halves_call, "token"),
    transition("rescue", RUNNING, ("FAILED",), dies_of_crash, "crashes", "token"),
    transition(
        "rescue",
        RUNNING,
        ("CANCELLED",),
        lambda old, new: counts_crash(old, new) and is_cancelled(old, new),
        "crashes",
        "token",
    ),
    transition(
        "ask to cancel",
        RUNNING,
        RUNNING,
        lambda old, new: is_not_cancelled(old, new) and by_operator(old, new),
    ),
    transition("cancel", QUEUED, ("CANCELLED",), by_operator),
    transition(
        "expire",
        QUEUED,
        ("CANCELLED",),
        lambda old, new: old.attempts == 0 and new.reason.startswith("Expired"),
    ),
    transition(
        "predecessor ended otherwise",
        QUEUED,
        ("CANCELLED",),
        lambda old, new: new.reason.startswith("Cancelled: "),
    ),
    transition(
        "dependency failed",
        ("WAITING",),
        ("FAILED",),
        lambda old, new: new.reason.startswith("Failed: "),
    ),
    transition(
        "revive",
        ("CANCELLED",),
        ("WAITING",),
        lambda old, new: old.blocked_by_id is not None,
    ),
    transition("operator's end", QUEUED, ("FAILED", "SUCCESSFUL"), by_operator),
    transition(
        "operator's end",
        RUNNING,
        ("FAILED", "SUCCESSFUL"),
        lambda old, new: has_new_token(old, new) and by_operator(old, new),
        "token",
    ),
    transition(
        "promote or run now", ("SCHEDULED",), ("READY", "WAITING"), lambda *_: 1
    ),
    transition("admit", ("WAITING",), ("READY",), lambda *_: True),
    transition("hold", ("READY",), ("WAITING",), lambda *_: True),
]
CHANGED_BY_RETRY = {"life", "attempts", "failures", "crashes"}


def transition_of(old: Version | None, new: Version) -> str | None:
    """Return the name of the change; None: it is illegal."""
    if old is None:
        return "enqueue" if is_enqueue(new) else None
    if new.is_gone:
        return None if old.status == "RUNNING" else "delete"
    changed = {name for name in COUNTERS if getattr(old, name) != getattr(new, name)}
    if old.status in FINISHED and new.status in QUEUED and "life" in changed:
        is_legal = changed <= CHANGED_BY_RETRY and begins_life(old, new)
        return "operator's retry" if is_legal else None
    for each in TRANSITIONS:
        if allows(each, old, new, changed):
            return each.name
    if old.status == new.status and not changed:
        return "bookkeeping" if old.worker_id == new.worker_id else None
    return None


def allows(each: Transition, old: Version, new: Version, changed: set[str]) -> bool:
    return bool(
        old.status in each.sources
        and new.status in each.targets
        and changed == each.changed
        and (new.status != "RUNNING" or new.worker_id is not None)
        and each.guard(old, new)
    )


def is_enqueue(new: Version) -> bool:
    """Whether a new row is a job in the queue; poison may look like anything."""
    if new.actor == POISON:
        return True
    return (
        new.operation == "INSERT"
        and new.status in QUEUED
        and (new.attempts, new.failures, new.crashes, new.life) == (0, 0, 0, 1)
        # Whatever has an obstacle is not READY until a worker has looked.
        and not (new.status == "READY" and (new.lock or new.limit_key or new.rate_key))
    )
