"""Very many queues whose jobs wait for one key, and are in the way of another job."""

import time
from collections.abc import Iterator

import psycopg

from chaos.faults import Fault, Stage, fault

NUMBER = 1_100
LONGEST = 10.0  # seconds, for workers to look at what has come
HOLDS = 6.0  # seconds in which a job holds the key, so that the others form a line
INSERT = """
INSERT INTO pgjobs_job (task, kwargs, queue_name, keys, max_crashes)
SELECT 'project.crowded', jsonb_build_object('mark', 'hostile', 'seconds', %s::float8),
    name, '{"limit_key": "crowd", "max_running": 1}', 1000
FROM unnest(%s::text[]) AS queue (name)
"""
PAUSE = """
INSERT INTO pgjobs_queue (name, paused_at) SELECT unnest(%s::text[]), now()
ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at
"""
IN_LINE = f"SELECT count(*) >= {NUMBER} FROM pgjobs_job WHERE line = 'limit crowd'"
IS_HELD = """
SELECT EXISTS (
    SELECT FROM pgjobs_job WHERE task = 'project.crowded' AND status = 'RUNNING'
)
"""
END = """
SELECT pgjobs_cancel(id) FROM pgjobs_job
WHERE task = 'project.crowded' AND queue_name LIKE 'crowd %' AND finished_at IS NULL
"""


@fault("a crowd of queues behind one key")
def crowd(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """Let a job stand in line behind those of many queues, which are paused then."""
    queues = [f"crowd {number:04}" for number in range(NUMBER)]
    fault.target = f"{NUMBER} queues"
    with stage.server.connect("chaos:operator") as connection:
        try:
            connection.execute(INSERT, [HOLDS, ["default"]])
            soon(connection, IS_HELD)
            connection.execute(INSERT, [0, queues])
            soon(connection, IN_LINE)
            connection.execute(PAUSE, [queues])
            connection.execute(INSERT, [0, ["default"]])
            soon(connection, IS_HELD.replace("EXISTS", "NOT EXISTS"))
            yield
        finally:
            clear_away(stage)


def clear_away(stage: Stage) -> None:
    """End the crowd, also where the server is away for a moment or refuses it once."""
    deadline = time.monotonic() + LONGEST
    while True:
        try:
            with stage.server.connect("chaos:operator") as connection:
                connection.execute(END)
                connection.execute("DELETE FROM pgjobs_queue WHERE name LIKE 'crowd %'")
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def soon(connection: psycopg.Connection, question: str) -> None:
    """Wait until the answer is yes, but not for ever."""
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        if connection.execute(question).fetchone()[0]:
            return
        time.sleep(0.05)
