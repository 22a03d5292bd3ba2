"""Read the evidence of a run from its database, journals and faults."""

import os
from pathlib import Path

import psycopg

from . import audit
from .checker.evidence import (
    DeliveryRow,
    EffectRow,
    Evidence,
    FaultRow,
    GiftRow,
    MoveRow,
    Pause,
    Rules,
    TickRow,
    Version,
    WorkerRow,
    with_ends,
)
from .faults import Fault
from .journal import transactions_in
from .project.settings import HEARTBEAT, LEASE, POLL, UNITS

NARROW = 2  # jobs of the queue "narrow" that may run at a time
PREFETCHING = "epsilon"  # the member that prefetches jobs
SUBSCRIBERS = ("project.first_handler", "project.ordered_handler")
SCHEDULES = ("project.tick", "project.chime", "project.knell")


def evidence(
    connection: psycopg.Connection, journals: Path, faults: list[Fault], ended_at: float
) -> Evidence:
    """Return all that the checker judges by."""

    def rows(kind, query: str) -> list:
        return [kind(**row._asdict()) for row in audit.rows(connection, query)]

    return Evidence(
        versions=[*with_ends(rows(Version, audit.VERSIONS))],
        transactions=transactions_in(journals),
        effects=rows(EffectRow, audit.EFFECTS),
        gifts=rows(GiftRow, audit.GIFTS),
        workers=rows(WorkerRow, audit.WORKERS),
        pauses=rows(Pause, audit.PAUSES),
        ticks=rows(TickRow, audit.TICKS),
        moves=rows(MoveRow, audit.MOVES),
        deliveries=rows(DeliveryRow, audit.DELIVERIES),
        faults=[fault_row(fault) for fault in faults],
        subscribers=SUBSCRIBERS,
        schedules=SCHEDULES,
        rules=Rules(POLL, HEARTBEAT, LEASE, UNITS, NARROW, PREFETCHING),
        ended_at=ended_at,
    )


def fault_row(fault: Fault) -> FaultRow:
    return FaultRow(
        fault.kind,
        fault.began_at,
        fault.ended_at,
        fault.target,
        tuple(fault.pids),
        tuple(map(tuple, fault.met)),
        fault.has_met_start,
        fault.skipped,
    )


def environment(ports: object, password: str) -> dict[str, str]:
    """Return what processes of the project need to know.

    `ports` is that of the server, or of a proxy before it, or of two servers.
    """
    root = Path(__file__).resolve().parent.parent
    paths = [os.environ.get("CHAOS_PACKAGE"), str(root), os.environ.get("PYTHONPATH")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONUNBUFFERED": "1",
        "DJANGO_SETTINGS_MODULE": "chaos.project.settings",
        "CHAOS_PORT": str(ports),
        "CHAOS_PASSWORD": password,
    }
