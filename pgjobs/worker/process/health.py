"""The health of a worker, for probes on other threads."""

from datetime import UTC, datetime
from time import monotonic
from typing import Any

from ..loop import Loop

# A pass has a few statements, each of which is cut after 30 s. So a database that is
# slow or away does not make the loop look stuck.
STUCK_SECONDS = 120.0


def liveness(loop: Loop) -> dict[str, Any]:
    """Return whether the loop runs passes, or sleeps and will wake.

    It does not say whether the worker can work: in an outage of the database an
    orchestrator would restart all workers.
    """
    overdue = max(monotonic() - loop.awake_at, 0.0)
    return {"ok": overdue < STUCK_SECONDS, "overdue_seconds": round(overdue, 1)}


def readiness(loop: Loop) -> dict[str, Any]:
    """Return whether the worker takes jobs, and how many slots are free."""
    state = state_of(loop)
    database = loop.phase == "running" and reaches_database(loop)
    slots = loop.options.slots
    return {
        "ok": state == "running" and database,
        "worker": loop.options.name,
        "state": state,
        "database": database,
        "listen": loop.listener.state if loop.phase == "running" else "off",
        "slots": slots,
        "free": max(slots - len(loop.in_flight), 0),  # prefetched jobs are held, too
        "last_claim_at": last_claim_of(loop),
    }


def state_of(loop: Loop) -> str:
    is_stopping = loop.phase == "running" and loop.lifetime.is_over
    return "stopping" if is_stopping else loop.phase


def reaches_database(loop: Loop) -> bool:
    """Whether the last statements succeeded: those of the loop and the heartbeat's."""
    return loop.faults.since is None and not loop.heartbeat.is_late


def last_claim_of(loop: Loop) -> str | None:
    return None if loop.phase == "starting" else iso(loop.claimer.last_claim_at)


def iso(timestamp: float | None) -> str | None:
    if timestamp is None:
        return None
    return datetime.fromtimestamp(timestamp, UTC).isoformat()
