"""Measure what finished jobs cost: `python -m benchmarks.history [number ...]`.

For each number of finished jobs: their size, and the processor time of the server for
pruning, vacuum, ANALYZE and the COPY of a backup. Then what it would cost to move
finished jobs into a table with partitions, in place of pruning them. Starts a
PostgreSQL of its own, or takes that of DATABASE_URL.
"""

import os
import sys
from collections.abc import Callable

import psycopg

from .capacity import own_project, say
from .processes import cpu_seconds
from .server import privileged

NUMBERS = (100_000, 1_000_000, 3_000_000)
SIZE = 500  # jobs of one statement, as a worker prunes
PRUNED = 50_000
AT_ONCE = 250_000
# Without triggers and in order, as jobs end one after the other, within ten days.
FILL = """
INSERT INTO pgjobs_job (
    task, kwargs, status, attempts, lease_token, enqueued_at, started_at,
    last_attempted_at, finished_at
)
SELECT 'benchmarks.tasks.noop', '{"number": 1}', 'SUCCESSFUL', 1, number, at, at, at, at
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS number
CROSS JOIN LATERAL (
    SELECT now() - interval '10 days' + number * interval '10 days' / %(number)s AS at
) AS each
"""
QUICKLY = "SET session_replication_role = replica; SET synchronous_commit = off"
HISTORY = """
CREATE TABLE history (LIKE pgjobs_job INCLUDING DEFAULTS INCLUDING STORAGE)
    PARTITION BY RANGE (finished_at);
CREATE TABLE history_day PARTITION OF history DEFAULT;
CREATE INDEX ON history (id);
CREATE INDEX ON history (status, finished_at);
"""
OLDEST = f"""
SELECT id FROM pgjobs_job WHERE status = 'SUCCESSFUL' AND finished_at IS NOT NULL
ORDER BY finished_at LIMIT {SIZE} FOR UPDATE SKIP LOCKED
"""
MOVE = f"""
WITH moved AS (DELETE FROM pgjobs_job WHERE id = ANY (ARRAY({OLDEST})) RETURNING *)
INSERT INTO history SELECT * FROM moved
"""
RUN = f"""
UPDATE pgjobs_job SET status = 'RUNNING', worker_id = 1, finished_at = NULL
WHERE id = ANY (ARRAY(
    SELECT id FROM pgjobs_job WHERE status = 'SUCCESSFUL' AND finished_at IS NOT NULL
    ORDER BY finished_at LIMIT {PRUNED}
))
"""
RUNNING = (
    f"SELECT id FROM pgjobs_job WHERE worker_id = 1 AND status = 'RUNNING' LIMIT {SIZE}"
)
END = f"""
UPDATE pgjobs_job SET status = 'SUCCESSFUL', worker_id = NULL, finished_at = now()
WHERE id = ANY (ARRAY({RUNNING}))
"""
END_IN_HISTORY = f"""
WITH moved AS (DELETE FROM pgjobs_job WHERE id = ANY (ARRAY({RUNNING})) RETURNING *)
INSERT INTO history SELECT * FROM moved
"""


class Session:
    """A session of the server, and the processor time that it uses."""

    def __init__(self) -> None:
        url = os.environ["DATABASE_URL"]
        self.connection = psycopg.connect(url, autocommit=True)
        # As the loop of a worker reads: see ONE_PLAN.
        for name in ("seqscan", "bitmapscan", "hashjoin", "mergejoin"):
            self.connection.execute(f"SET enable_{name} = off")

    def execute(self, text: str, parameters: dict | None = None) -> list[tuple]:
        cursor = self.connection.execute(text, parameters)
        return cursor.fetchall() if cursor.description else []

    def seconds(self, act: Callable[[], object]) -> float:
        """Return the processor time of the server for an act of this session."""
        begun = cpu_seconds(self.connection.info.backend_pid)
        act()
        return cpu_seconds(self.connection.info.backend_pid) - begun


def fill(session: Session, number: int) -> None:
    session.execute("TRUNCATE pgjobs_job CASCADE")
    with privileged() as server:
        server.execute(QUICKLY)
        for first in range(1, number + 1, AT_ONCE):
            last = min(first + AT_ONCE - 1, number)
            server.execute(FILL, {"first": first, "last": last, "number": number})


def measure(number: int) -> None:
    from pgjobs.queue import upkeep

    session = Session()
    fill(session, number)
    figures = {
        "first vacuum, s": session.seconds(
            lambda: session.execute("VACUUM pgjobs_job")
        ),
        "ANALYZE, s": session.seconds(lambda: session.execute("ANALYZE pgjobs_job")),
        "GB": size(session) / 1e9,
        "COPY, s": dump(session),
    }
    age = 10 * 86_400 * (1 - min(PRUNED, number) / number)
    pruned: list[int] = []

    def prune() -> None:
        batch = upkeep.Batch(limit=SIZE)
        position, has_more = upkeep.OLDEST, True
        while has_more:
            gone, has_more, position = upkeep.prune_slice(
                session.execute, "SUCCESSFUL", age, position, batch
            )
            pruned.append(gone)

    seconds = session.seconds(prune)
    figures["prune, us/job"] = seconds / max(sum(pruned), 1) * 1e6
    vacuum = session.seconds(lambda: session.execute("VACUUM pgjobs_job"))
    figures[f"vacuum after {sum(pruned):,}, s"] = vacuum
    for name, value in figures.items():
        say(f"{number:>13,}  {name:28}{value:10.2f}")


def size(session: Session) -> int:
    return session.execute("SELECT pg_total_relation_size('pgjobs_job')")[0][0]


def dump(session: Session) -> float:
    """Return the processor time of the server for what pg_dump asks it for."""

    def copy() -> None:
        with session.connection.cursor().copy("COPY pgjobs_job TO STDOUT") as rows:
            for _ in rows:
                pass

    return session.seconds(copy)


def compare_history(number: int) -> None:
    """Print what moving finished jobs costs, beside pruning and recording."""
    session = Session()
    fill(session, number)
    session.execute("VACUUM ANALYZE pgjobs_job")
    session.execute(HISTORY)
    parts = PRUNED // SIZE

    def repeat(statement: str) -> float:
        seconds = session.seconds(
            lambda: [session.execute(statement) for _ in range(parts)]
        )
        return seconds / PRUNED * 1e6

    delete = f"DELETE FROM pgjobs_job WHERE id = ANY (ARRAY({OLDEST}))"
    figures = {"delete": repeat(delete), "move to history": repeat(MOVE)}
    for name, statement in (
        ("record the end by an UPDATE", END),
        ("record the end in history", END_IN_HISTORY),
    ):
        session.execute(RUN)
        session.execute("VACUUM pgjobs_job")
        figures[name] = repeat(statement)
    drop = session.seconds(lambda: session.execute("DROP TABLE history"))
    figures["drop the partitions, all"] = drop / PRUNED / 2 * 1e6
    for name, value in figures.items():
        say(f"{name:43}{value:10.2f} us/job")


def main(numbers: list[int]) -> int:
    with own_project(os.environ.get("DATABASE_URL"), "history"):
        for number in numbers:
            measure(number)
        compare_history(max(min(numbers), 4 * PRUNED))
    return 0


if __name__ == "__main__":
    sys.exit(main([int(each) for each in sys.argv[1:]] or list(NUMBERS)))
