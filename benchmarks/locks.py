"""Measure locks and limits: `python -m benchmarks.locks`.

Each figure stands beside that of jobs without keys, measured in turns on one server:
what one machine does in a second says nothing about another.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from .processes import cpu_seconds_of_tree
from .server import Server, running_server

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 5
# As the worker's connection does: one statement after the other, in one plan.
INSERTS = """
DO $$ BEGIN
    FOR i IN 1..60 LOOP
        INSERT INTO pgjobs_job (task, kwargs) VALUES ('project.noop', '{"number": 1}');
    END LOOP;
END $$
"""
UPDATES = """
DO $$ DECLARE
    first bigint := (SELECT min(id) FROM pgjobs_job WHERE status = 'READY');
BEGIN
    FOR i IN 0..5 LOOP
        UPDATE pgjobs_job
        SET status = 'RUNNING', attempts = attempts + 1, worker_id = 1
        WHERE id >= first + i * 10 AND id < first + i * 10 + 10;
        UPDATE pgjobs_job
        SET status = 'SUCCESSFUL', finished_at = clock_timestamp(), worker_id = NULL
        WHERE id >= first + i * 10 AND id < first + i * 10 + 10;
    END LOOP;
END $$
"""
# The job table as if there were no keys, uniqueness, dependencies and units.
WITHOUT_FLOW_CONTROL = """
DROP TRIGGER pgjobs_check_flow_control ON pgjobs_job;
DROP TRIGGER pgjobs_queue_changed ON pgjobs_job;
DROP TRIGGER pgjobs_note_changed ON pgjobs_job;
DROP TRIGGER pgjobs_note_deleted ON pgjobs_job;
DROP TRIGGER pgjobs_serve_changed ON pgjobs_job;
DROP TRIGGER pgjobs_serve_deleted ON pgjobs_job;
DROP TRIGGER pgjobs_queue_inserted ON pgjobs_job;
CREATE TRIGGER pgjobs_queue_inserted BEFORE INSERT ON pgjobs_job FOR EACH ROW
    WHEN (NEW.status = 'READY' AND NEW.run_after > statement_timestamp())
    EXECUTE FUNCTION pgjobs_queue_inserted();
DROP INDEX pgjobs_job_unique, pgjobs_job_line, pgjobs_job_lock, pgjobs_job_lock_order,
    pgjobs_job_limit, pgjobs_job_batch, pgjobs_job_units;
"""


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def in_project(code: str, url: str) -> list[float]:
    """Run code in a Django project with this database; return what it prints."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "benchmarks.project.settings",
    }
    command = [sys.executable, "-m", "benchmarks.locks", "--run", code]
    printed = subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    ).stdout
    return json.loads(printed.splitlines()[-1])


# What runs in the project


def setup() -> None:
    from django.core.management import call_command

    call_command("migrate", "pgjobs", verbosity=0)


def whole(number: str, server: str) -> float:
    """Return the processor time of client, server and worker for a job, in us."""
    from django.core.management import call_command

    from benchmarks.project.tasks import TASKS

    TASKS["noop"].enqueue(0)
    begin = time.process_time() + server_seconds(int(server))
    for n in range(int(number)):
        TASKS["noop"].enqueue(n)
    call_command("runjobs", "--drain", "--concurrency", "8", verbosity=0)
    used = time.process_time() + server_seconds(int(server)) - begin
    return used / int(number) * 1e6


def server_seconds(pid: int) -> float:
    """Return the processor time of all sessions, those that have ended, too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ended = sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")
    return cpu_seconds_of_tree(pid) + ended


def claims(locked: str) -> float:
    """Return milliseconds of a turn that claims one free job, the median."""
    from benchmarks.project.tasks import TASKS
    from pgjobs import enqueue_many
    from pgjobs.models import work
    from pgjobs.sql import statement
    from pgjobs.worker import WorkerOptions
    from pgjobs.worker.connection import OwnConnection, Watchdog, plan_once

    noop = TASKS["noop"]
    enqueue_many([noop.using(lock="one").bind(n) for n in range(int(locked))])
    own = OwnConnection("default", "benchmark", "", Watchdog(), 30, prepare=plan_once)
    options = WorkerOptions()
    row = {"name": "benchmark", "host": "", "pid": 0, "queues": "", "excluded": ""}
    row |= {"slots": 1, "units": None, "lease": 3600, "heartbeat_interval": 3600}
    own.execute(statement("register_worker"), row)  # none is admitted without a worker
    while work.admit(own.execute).has_more:
        pass
    taken = work.turn(own.execute, 1, limit=1, queues=options.queues)
    assert len(taken.claimed) == (1 if int(locked) else 0)  # the holder
    times = []
    for number in range(200):
        noop.enqueue(number)
        begin = time.perf_counter()
        brought = work.turn(own.execute, 1, limit=4, queues=options.queues)
        times.append(time.perf_counter() - begin)
        assert len(brought.claimed) == 1
    return statistics.median(times) * 1000


def drain(kind: str, number: str) -> float:
    """Return the jobs per second of one worker process."""
    from django.core.management import call_command

    from benchmarks.project.tasks import TASKS
    from pgjobs import enqueue_many

    noop = TASKS["noop"]
    tasks = {
        "free": lambda n: noop,
        "locks": lambda n: noop.using(lock=f"lock-{n % 1000}"),
        "limit": lambda n: noop.using(max_running=1),
    }
    enqueue_many([tasks[kind](n).bind(n) for n in range(int(number))])
    begin = time.perf_counter()
    call_command("runjobs", "--drain", "--concurrency", "8", verbosity=0)
    return int(number) / (time.perf_counter() - begin)


def chains(kind: str, number: str) -> float:
    """Return the jobs per second of one worker process, in chains of five or not."""
    from django.core.management import call_command

    from benchmarks.project.tasks import TASKS
    from pgjobs import chain, enqueue, enqueue_many, group

    bound = [TASKS["noop"].bind(n) for n in range(int(number))]
    if kind == "chains":
        fives = [bound[at : at + 5] for at in range(0, len(bound), 5)]
        enqueue(group([chain(*five) for five in fives], then=bound[0]))
    else:
        enqueue_many(bound)
    begin = time.perf_counter()
    call_command("runjobs", "--drain", "--concurrency", "8", verbosity=0)
    return int(number) / (time.perf_counter() - begin)


def unique(connections: str, number: str) -> list[float]:
    """Enqueue one key from several connections; return seconds, jobs and errors."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    from benchmarks.project.tasks import TASKS
    from pgjobs.models import Job

    barrier, errors = Barrier(int(connections) + 1), []
    task = TASKS["noop"].using(unique_key="one")

    def enqueue_often() -> None:
        TASKS["noop"].signature.store((1,), {})
        barrier.wait()
        for _ in range(int(number) // int(connections)):
            try:
                task.enqueue(1)
            except Exception as error:  # noqa: BLE001
                errors.append(error)

    with ThreadPoolExecutor(int(connections)) as pool:
        for _ in range(int(connections)):
            pool.submit(enqueue_often)
        barrier.wait()
        begin = time.perf_counter()
    return [time.perf_counter() - begin, Job.objects.count(), len(errors)]


# The figures


def fresh(server: Server, code: str) -> float:
    url = server.create_database("locks")
    in_project("setup", url)
    return in_project(code, url)


def compare(title: str, unit: str, one: Callable, other: Callable) -> None:
    """Measure both in turns; print the medians and the quotient."""
    pairs = [(one(), other()) for _ in range(ROUNDS)]
    first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
    quotient = statistics.median(b / a for a, b in pairs)
    say(f"| {title} | {first:.2f} {unit} | {second:.2f} {unit} | {quotient:.2f} |")


def cost_of_plain_jobs(server: Server) -> None:
    """Compare the server's processor time with that of a table without flow control."""
    connections = []
    for name in ("without", "with"):
        url = server.create_database(name)
        in_project("setup", url)
        connections.append(psycopg.connect(url, autocommit=True))
    for connection in connections:
        connection.execute("SET synchronous_commit = off")
    connections[0].execute(WITHOUT_FLOW_CONTROL)
    extra = 0.0
    for title, statement in (("insert", INSERTS), ("claim and record", UPDATES)):
        pairs = [
            tuple(used_by(connection, statement) / 60 for connection in connections)
            for _ in range(150)
        ]
        before, after = (quantile(column) for column in zip(*pairs, strict=True))
        say(
            f"| processor time of the server for a job without keys: {title} "
            f"| {before:.1f} µs | {after:.1f} µs | {after / before:.3f} |"
        )
        extra += after - before
    # The whole varies by more than the difference: that is what was measured above.
    wholes = [fresh(server, f"whole 5000 {server.pid}") for _ in range(ROUNDS)]
    whole = statistics.median(wholes)
    say(
        "| processor time of client, server and worker for all of such a job "
        f"| {whole - extra:.0f} µs | {whole:.0f} µs | {whole / (whole - extra):.3f} |"
    )


def used_by(connection, statement: str) -> float:
    """Return the microseconds of processor time that the session's process used."""
    path = Path(f"/proc/{connection.info.backend_pid}/schedstat")
    begin = int(path.read_text().split()[0])
    connection.execute(statement)
    return (int(path.read_text().split()[0]) - begin) / 1000


def quantile(times) -> float:
    """Return the first quartile: others use the machine, too."""
    return statistics.quantiles(times, n=4)[0]


def main() -> None:
    with running_server() as server:
        say("| | without | with | quotient |\n|---|---|---|---|")
        cost_of_plain_jobs(server)
        compare(
            "claim of a free job, 100,000 behind one lock",
            "ms",
            lambda: fresh(server, "claims 0"),
            lambda: fresh(server, "claims 100000"),
        )
        compare(
            "drain of 1,000 locks with 20 jobs each",
            "jobs/s",
            lambda: fresh(server, "drain free 20000"),
            lambda: fresh(server, "drain locks 20000"),
        )
        compare(
            "drain with max_running=1",
            "jobs/s",
            lambda: fresh(server, "drain free 2000"),
            lambda: fresh(server, "drain limit 2000"),
        )
        compare(
            "drain of a group of chains of five",
            "jobs/s",
            lambda: fresh(server, "chains free 5000"),
            lambda: fresh(server, "chains chains 5000"),
        )
        seconds, jobs, errors = fresh(server, "unique 8 1000")
        say(
            f"\n1,000 enqueues of one unique key from 8 connections: {jobs:.0f} job, "
            f"{errors:.0f} errors, {seconds * 1000:.0f} ms."
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        import django

        django.setup()
        name, *arguments = sys.argv[2].split()
        runs = (setup, whole, claims, drain, chains, unique)
        run = {each.__name__: each for each in runs}[name]
        say(json.dumps(run(*arguments)))
    else:
        main()
