"""Moving a tenant's jobs, schedules and events to another database.

Nothing looks into two databases at once, so a move has four steps, and each one is a
transaction in one database:

1. Pack: the rows leave their tables and become parcels, in the database where they are.
   Jobs that run are left alone. When they have ended, another pass packs them.
2. Seal: when nothing is left, the move is closed.
3. Deliver: the rows are inserted in the other database, together with a mark that the
   move has arrived.
4. Forget: the parcels are deleted.

Whatever ends the process between any two statements, a later call goes on. It finds
the move by its selection, and learns from the mark whether it has arrived.

The rows keep their ids, and so their links and idempotency keys stay true. For that
each database draws its ids from a block of its own: see `id_blocks`.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connections, transaction

from ...queue.statements import array, execute_on
from ...sql import statement
from .id_blocks import refuse_same_block

logger = logging.getLogger("pgjobs.moving")

CHUNK = 500  # rows of one INSERT
PAUSE = 0.5  # seconds between two looks at jobs that run
# The tables in the order of insertion, because some refer to others. With each stand
# the columns whose values the other database gives: ids to which no row refers, and
# `turn`, which orders a job among the others of its database.
OWN_VALUES: dict[str, tuple[str, ...]] = {
    "pgjobs_event": (),
    "pgjobs_awaitedevent": (),
    "pgjobs_batch": (),
    "pgjobs_schedule": (),
    "pgjobs_job": ("turn",),
    "pgjobs_attempt": ("id",),
    "pgjobs_step": ("id",),
    "pgjobs_wait": ("id", "worker_id"),
    "pgjobs_answer": ("id",),
    "pgjobs_progress": (),
    "pgjobs_predecessor": ("id",),
    "pgjobs_delivery": (),
    "pgjobs_tick": ("id",),
    "pgjobs_errorgroup": (),
}
# Rows of these may be copied, and not moved. The other database may have the same ones.
COPIED = ("pgjobs_event", "pgjobs_errorgroup")
# What the other database decides again about a job that has not ended.
OF_JOBS = {
    "status": "CASE WHEN finished_at IS NULL THEN 'READY' ELSE status END",
    "waiting_for": "NULL",
    "line": "NULL",
    "worker_id": "NULL",
    "blocked_by_id": "CASE WHEN finished_at IS NOT NULL THEN blocked_by_id END",
}
COLUMNS = """
SELECT quote_ident(attname) FROM pg_attribute
WHERE attrelid = %(table)s::regclass AND attnum > 0 AND NOT attisdropped
    AND attname <> ALL (%(own)s::text[])
ORDER BY attnum
"""
BEGIN = """
INSERT INTO pgjobs_move (id, source, destination, selection)
VALUES (gen_random_uuid(), %(source)s, %(destination)s, %(selection)s) RETURNING id
"""
# A process that begins a move would not see one that another has just begun. The number
# says "pgjv" in ASCII.
BEGIN_ALONE = "SELECT pg_advisory_xact_lock(1885825654, hashtext(%(selection)s))"
FIND = """
SELECT id, sealed_at IS NOT NULL FROM pgjobs_move
WHERE arrived_at IS NULL AND destination = %(destination)s
    AND selection = %(selection)s
ORDER BY begun_at, id LIMIT 1
"""
# What leaves with its batch is not deleted: see functions/jobs/jobs_deleted.sql.
MOVE = "SELECT set_config('pgjobs.moves', 'on', true)"
SEAL = """
UPDATE pgjobs_move SET sealed_at = clock_timestamp() WHERE id = %(move)s RETURNING id
"""
ARRIVE = """
INSERT INTO pgjobs_move (id, source, destination, selection, sealed_at, arrived_at)
VALUES (
    %(move)s, %(source)s, %(destination)s, %(selection)s,
    clock_timestamp(), clock_timestamp()
)
ON CONFLICT (id) DO NOTHING RETURNING id
"""
READ = """
SELECT id, content::text FROM pgjobs_parcel
WHERE move_id = %(move)s AND "table" = %(table)s AND id > %(after)s
ORDER BY id LIMIT %(limit)s
"""
# What others may need of a job that has succeeded.
PROVIDE = """
SELECT pgjobs_provide((job ->> 'id')::bigint)
FROM jsonb_array_elements(%(rows)s::jsonb) AS each (job)
WHERE job ->> 'status' = 'SUCCESSFUL' AND job -> 'dependencies' <> 'null'
"""
FORGET = "DELETE FROM pgjobs_parcel WHERE move_id = %(move)s RETURNING id"
END = "DELETE FROM pgjobs_move WHERE id = %(move)s RETURNING id"


class CrossingLinks(Exception):
    """Jobs of the move are tied to others, which it does not take along."""


class Refused(Exception):
    """The database to which the rows go refuses one, and has taken none."""


class StillRunning(Exception):
    """Jobs of the move still run, so it cannot be sealed."""


@dataclass(frozen=True)
class Selection:
    """What a move takes along: jobs, schedules and events with these arguments.

    - `arguments`: names and values that the arguments of a job or schedule, or the
      payload of an event, must have.
    - `queues`: only jobs of these queues, and no schedules and events.
    """

    arguments: dict[str, Any] | None = None
    queues: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.arguments and not self.queues:
            raise ValueError("A move needs arguments or queues that select its jobs.")

    @property
    def parameters(self) -> dict[str, Any]:
        arguments = None if self.arguments is None else json.dumps(self.arguments)
        queues = None if self.queues is None else list(self.queues)
        return {"arguments": arguments, "queues": queues}

    @property
    def text(self) -> str:
        """The selection as a text by which a later call finds the move."""
        chosen = {"arguments": self.arguments, "queues": self.queues}
        return json.dumps(chosen, sort_keys=True)


class Mover:
    """One move, or what a move that was interrupted has left to do."""

    def __init__(self, source: str, destination: str, selection: Selection):
        if source == destination:
            raise ValueError(f"A move needs two databases, got {source!r} twice.")
        self.source, self.destination = source, destination
        self.selection = selection
        self.there = execute_on(destination)
        self.here = execute_on(source)
        self.names = {
            "source": source,
            "destination": destination,
            "selection": selection.text,
        }

    def move(self, patience: float = 60.0) -> dict[str, int]:
        """Move everything; return {table: rows that have arrived}.

        `patience`: seconds to wait for jobs that run. Raises StillRunning,
        CrossingLinks, and Refused if the destination does not take a row. What is
        packed stays packed, and runs nowhere until another call delivers it.
        """
        refuse_same_block(self.source, self.destination)
        deadline = monotonic() + patience
        while (id := self.pack()) is None:
            if monotonic() >= deadline:
                listed = ", ".join(map(str, self.left()))
                raise StillRunning(
                    f"Jobs still run: {listed}. What is packed waits for them. Move "
                    "again when they have ended."
                )
            sleep(PAUSE)
        return self.deliver(id)

    def left(self) -> list[int]:
        rows = self.here(statement("moving_left"), self.selection.parameters)
        return [id for (id,) in rows]

    # In the database that the rows leave

    def pack(self) -> UUID | None:
        """Pack what does not run; return the move's id once it is sealed."""
        with transaction.atomic(using=self.source):
            id, is_sealed = self.begun()
            if is_sealed:
                return id
            self.refuse_crossing_links()
            if self.selection.arguments is not None and self.selection.queues is None:
                self.here(statement("pack_schedules"), self.parameters(id))
            jobs = self.here(statement("moving_jobs"), self.selection.parameters)
            ids = array(id for (id,) in jobs)
            self.here(MOVE, {})
            self.here(statement("pack_jobs"), {**self.parameters(id), "ids": ids})
            if self.left():
                return None
            self.here(statement("pack_rest"), self.parameters(id))
            self.here(SEAL, {"move": id})
        return id

    def begun(self) -> tuple[UUID, bool]:
        """Return the move that is under way, or begin one; no other process can."""
        self.here(BEGIN_ALONE, self.names)
        found = self.here(FIND, self.names)
        if found:
            id, is_sealed = found[0]
            return id, is_sealed
        ((id,),) = self.here(BEGIN, self.names)
        return id, False

    def parameters(self, id: UUID) -> dict[str, Any]:
        return {**self.selection.parameters, "move": id}

    def refuse_crossing_links(self) -> None:
        links = self.here(statement("crossing_links"), self.selection.parameters)
        if links:
            listed = "; ".join(text for (text,) in links)
            raise CrossingLinks(
                f"The move would tear jobs apart that belong together: {listed}. "
                "Select these jobs, too. Where one waits for another, you can also "
                "wait until that one has ended. Members of a batch and deliveries of "
                "an event stay together after their end, until you delete those that "
                "have ended (manage.py jobs delete)."
            )

    # Between the two

    def deliver(self, id: UUID) -> dict[str, int]:
        """Insert what is packed, once, and forget the parcels.

        Returns nothing if another process has done so.
        """
        counts: dict[str, int] = {}
        with transaction.atomic(using=self.destination):
            # Another process that delivers the same waits here for the end of this one.
            if self.there(ARRIVE, {**self.names, "move": id}):
                for table in OWN_VALUES:
                    try:
                        counts[table] = self.insert(table, id)
                    except IntegrityError as error:
                        raise Refused(f"{table}: {error}") from error
        with transaction.atomic(using=self.source):
            self.here(FORGET, {"move": id})
            self.here(END, {"move": id})
        logger.info("Move id=%s selection=%s arrived: %s", id, self.selection, counts)
        return {table: number for table, number in counts.items() if number}

    def insert(self, table: str, move: UUID) -> int:
        query = inserting(self.destination, table)
        number = 0
        for rows in self.chunks(table, move):
            parameters = {"rows": f"[{','.join(rows)}]"}
            self.there(query, parameters)
            number += len(rows)
            if table == "pgjobs_job":
                self.there(PROVIDE, parameters)
        return number

    def chunks(self, table: str, move: UUID) -> Iterator[Sequence[str]]:
        after = 0
        while True:
            rows = self.here(
                READ, {"move": move, "table": table, "after": after, "limit": CHUNK}
            )
            if not rows:
                return
            yield [text for _, text in rows]
            after = rows[-1][0]


def inserting(database: str, table: str) -> str:
    """Return the statement that inserts rows of a table from one JSON array."""
    own = list(OWN_VALUES[table])
    with connections[database].cursor() as cursor:
        cursor.execute(COLUMNS, {"table": table, "own": own})
        names = [name for (name,) in cursor.fetchall()]
    given = OF_JOBS if table == "pgjobs_job" else {}
    values = ", ".join(given.get(name, name) for name in names)
    # `turn` is drawn in this order, and rises with the ids.
    order = "ORDER BY id" if "id" in names else ""
    unless = "ON CONFLICT DO NOTHING" if table in COPIED else ""
    return (
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} "  # noqa: S608
        f"FROM jsonb_populate_recordset(NULL::{table}, %(rows)s::jsonb) {order} "
        f"{unless} RETURNING 1"
    )
