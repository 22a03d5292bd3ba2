"""Kill workers that have the default times: `python -m chaos.deaths --times 20`.

Prints how long it took until another worker had taken back what the dead one held. Of
idle workers one leads, and finds who is dead: it is killed in half the cases.
With `--load N` so many processes keep the processors busy meanwhile.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from .collect import environment
from .recovery import percentile
from .server import Server

WORKERS = 4
HEARTBEAT = 5.0  # seconds
LEADS_WITHIN = 15.0  # seconds, until a worker leads
BUSY = "while True: pass"
LEADER, OTHER = "the worker that leads", "another worker"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.deaths", description=__doc__)
    parser.add_argument("--times", type=int, default=20, metavar="N")
    parser.add_argument("--load", type=int, default=0, metavar="N")
    chosen = parser.parse_args(arguments)
    with ExitStack() as stack:
        for _ in range(chosen.load):
            stack.enter_context(process([sys.executable, "-c", BUSY], {}))
        found = deaths(stack, chosen.times)
    print("| killed | times | taken back after, p50 / p95 / max s |")  # noqa: T201
    print("|---|---:|---:|")  # noqa: T201
    for kind, seconds in found.items():
        told = " / ".join(f"{percentile(seconds, each):.1f}" for each in (50, 95, 100))
        print(f"| {kind} | {len(seconds)} | {told} |")  # noqa: T201
    return 0


def deaths(stack: ExitStack, times: int) -> dict[str, list[float]]:
    server = Server(700)
    stack.callback(server.remove)
    server.start()
    server.make_owner()
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    settings = {"DJANGO_SETTINGS_MODULE": "chaos.project.default_times"}
    of_all = {**environment(server.port, server.password), **settings}
    migrate = [sys.executable, "-m", "django", "migrate", "--verbosity", "0"]
    subprocess.run(migrate, env=of_all, cwd=scratch, check=True)
    work = [sys.executable, "-W", "ignore", "-m", "django", "runjobs"]
    found: dict[str, list[float]] = {LEADER: [], OTHER: []}
    with server.connect() as connection:
        for number in range(times):
            while count(connection) < WORKERS:
                stack.enter_context(process(work, of_all))
                wait_until_registered(connection)
            # The others have to be connected for a while before they judge it.
            time.sleep(1.3 * HEARTBEAT + random.uniform(1, 1 + HEARTBEAT))
            kind = (LEADER, OTHER)[number % 2]
            found[kind].append(kill(connection, kind))
    return {kind: sorted(seconds) for kind, seconds in found.items()}


@contextmanager
def process(command: list[str], env: dict) -> Iterator[subprocess.Popen]:
    started = subprocess.Popen(
        command, env=env or None, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def count(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT count(*) FROM pgjobs_worker").fetchone()
    assert row is not None
    return row[0]


def wait_until_registered(connection: psycopg.Connection) -> None:
    before = count(connection)
    while count(connection) == before:
        time.sleep(0.1)


def kill(connection: psycopg.Connection, kind: str) -> float:
    """Kill a worker; return the seconds until its row is gone, and its jobs with it."""
    leader = leading_worker(connection)
    rows = connection.execute("SELECT id, pid FROM pgjobs_worker").fetchall()
    id, pid = random.choice(
        [row for row in rows if (row[0] == leader) == (kind == LEADER)]
    )
    subprocess.run(["kill", "-9", str(pid)], check=True)
    begun = time.monotonic()
    still = "SELECT FROM pgjobs_worker WHERE id = %s"
    while connection.execute(still, [id]).fetchone() is not None:
        time.sleep(0.01)
    return time.monotonic() - begun


def leading_worker(connection: psycopg.Connection) -> int:
    """Return the number of the worker that leads."""
    lead = "SELECT min(id) FROM pgjobs_worker WHERE leads_until > clock_timestamp()"
    deadline = time.monotonic() + LEADS_WITHIN
    while time.monotonic() < deadline:
        row = connection.execute(lead).fetchone()
        if row is not None and row[0] is not None:
            return row[0]
        time.sleep(0.01)
    raise AssertionError("no worker leads")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
