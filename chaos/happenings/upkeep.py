"""What others do to the tables: locks, snapshots, upkeep, paused queues."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from chaos.faults import Fault, Stage, fault


@contextmanager
def held(stage: Stage, *statements: str) -> Iterator[Any]:
    """Hold a transaction open that begins with these statements."""
    with psycopg.connect(stage.server.url(name="chaos:holder")) as connection:
        connection.execute("SET lock_timeout = '3s'")
        connection.commit()
        for statement in statements:
            cursor = connection.execute(statement)
        try:
            yield cursor
        finally:
            with suppress(psycopg.Error):
                connection.rollback()


@fault("lock rows")
def lock_rows(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    lock = (
        "SELECT id, lease_token, status FROM pgjobs_job WHERE finished_at IS NULL "
        "ORDER BY id LIMIT 20 FOR UPDATE SKIP LOCKED"
    )
    with held(stage, lock) as cursor:
        rows = cursor.fetchall()
        fault.met = [(id, token) for id, token, status in rows if status == "RUNNING"]
        fault.target = f"{len(rows)} rows"
        yield


@fault("lock the table")
def lock_table(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    mode = ["SHARE ROW EXCLUSIVE", "ACCESS EXCLUSIVE"][int(draw * 2)]
    stage.meet_all(fault)
    with held(stage, f"LOCK TABLE pgjobs_job IN {mode} MODE"):
        yield


@fault("pin a snapshot")
def pin_snapshot(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    stage.meet_all(fault)
    begin = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
    with held(stage, begin, "SELECT pg_current_xact_id(), count(*) FROM pgjobs_job"):
        yield


def keeping_up(kind: str, statement: str) -> None:
    """Register a command of upkeep."""

    @fault(kind)
    def happening(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
        stage.meet_all(fault)
        with stage.server.connect("chaos:upkeep") as connection:
            connection.execute("SET statement_timeout = '20s'")
            connection.execute(statement)
        yield


keeping_up("analyze", "ANALYZE")
keeping_up("reindex", "REINDEX TABLE CONCURRENTLY pgjobs_job")
keeping_up("vacuum full", "VACUUM FULL pgjobs_job")


@fault("pause a queue")
def pause_queue(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    queue = ["default", "narrow"][int(draw * 2)]
    fault.target, fault.met = queue, stage.running(queue)
    change = "UPDATE pgjobs_queue SET paused_at = {} WHERE name = %s"
    with stage.server.connect("chaos:operator") as connection:
        connection.execute(change.format("now()"), [queue])
        try:
            yield
        finally:
            connection.execute(change.format("NULL"), [queue])
