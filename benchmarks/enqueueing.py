"""What an enqueue costs: `python -m benchmarks.enqueueing [checkout ...]`.

Other checkouts of pgjobs alternate with this one, each in a process and a database of
its own. Prints the medians of the microseconds of processor that the caller and its
session take for a job, and of their quotients to this checkout, of jobs that are
enqueued one by one, each with its own commit, and 2,000 at a time. It does so with
Django's settings as they come, and with prepared statements.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.server import Server, running_server

ROOT = Path(__file__).parents[1]
ROUNDS = int(os.environ.get("ROUNDS", "15"))
ALONE, TOGETHER = 300, 2_000  # jobs in a round
KINDS = ("one by one", "together")
OPTIONS = {
    "plain": {},
    "prepared": {"server_side_binding": True, "prepare_threshold": 5},
}


def serve() -> None:
    """Enqueue as often as a line of the standard input asks for it."""
    import django

    django.setup()

    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection

    from benchmarks.project.tasks import TASKS
    from pgjobs import enqueue_many

    options = json.loads(os.environ["OPTIONS"])
    settings.DATABASES["default"]["OPTIONS"] = connection.settings_dict["OPTIONS"] = (
        options
    )
    call_command("migrate", "pgjobs", verbosity=0)
    noop = TASKS["noop"]
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
    pid = connection.connection.info.backend_pid

    def one_by_one() -> int:
        for number in range(ALONE):
            noop.enqueue(number)
        return ALONE

    def together() -> int:
        enqueue_many([noop.bind(number) for number in range(TOGETHER)])
        return TOGETHER

    for line in sys.stdin:
        run = {"one by one": one_by_one, "together": together}[line.strip()]
        used = used_by(run, pid)
        sys.stdout.write(json.dumps(used) + "\n")
        sys.stdout.flush()


def used_by(run: Callable[[], int], pid: int) -> tuple[float, float]:
    """Return the microseconds for a job of the caller, and of its session."""
    session = Path(f"/proc/{pid}/schedstat")
    begun, session_begun = time.process_time(), session.read_text().split()[0]
    number = run()
    used = time.process_time() - begun
    of_session = int(session.read_text().split()[0]) - int(session_begun)
    return used / number * 1e6, of_session / number / 1e3


class Checkout:
    """A caller in a process of its own, with the code of a checkout."""

    def __init__(self, path: Path, options: dict, server: Server, name: str):
        self.path = path
        self.process = subprocess.Popen(
            [sys.executable, __file__, "serve"],
            cwd=path,
            env={
                **os.environ,
                "PYTHONPATH": str(path),
                "DATABASE_URL": server.create_database(name),
                "DJANGO_SETTINGS_MODULE": "benchmarks.project.settings",
                "OPTIONS": json.dumps(options),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def enqueue(self, kind: str) -> list[float]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{kind}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def compare(server: Server, paths: Sequence[Path], options: str) -> None:
    callers = [
        Checkout(path, OPTIONS[options], server, f"{options}{at}")
        for at, path in enumerate(paths)
    ]
    for kind in KINDS:
        for caller in callers:
            caller.enqueue(kind)  # what it imports and prepares
        rounds = [[caller.enqueue(kind) for caller in callers] for _ in range(ROUNDS)]
        for at, caller in enumerate(callers):
            for part, what in enumerate(("caller", "session")):
                used = [each[at][part] for each in rounds]
                quotients = [each[at][part] / each[0][part] for each in rounds]
                say(
                    f"| {options}, {kind} | {what} | {caller.path} "
                    f"| {statistics.median(used):.1f} us "
                    f"| {statistics.median(quotients):.3f} |"
                )
    for caller in callers:
        caller.end()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(checkouts: Sequence[str]) -> None:
    paths = [ROOT, *(Path(each).resolve() for each in checkouts)]
    with running_server(os.environ.get("DATABASE_URL")) as server:
        for options in OPTIONS:
            compare(server, paths, options)
        load = Path("/proc/loadavg").read_text().split()[0]
        say(f"PostgreSQL {server.version}, {ROUNDS} rounds, load {load}")


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        main(sys.argv[1:])
