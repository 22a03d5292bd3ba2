"""Measure locks, limits and rates: `python -m benchmarks.locks`.

Each figure stands beside that of jobs without keys, measured alternately on one server:
what one machine does in a second says nothing about another.
"""

import gc
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
# Kinds of jobs, and how many of them.
DRAINS = {
    "own-lock": 10_000,
    "1,000-limit-keys": 10_000,
    "1,000-locks": 20_000,
    "line": 1_000,
    "mutex": 1_000,
    "limit": 1_000,
    "10,000/minute": 10_000,
    "10,000-rate-keys": 10_000,
}
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
        SET status = 'RUNNING', attempts = attempts + 1, worker_id = 1,
            last_attempted_at = clock_timestamp()
        WHERE id >= first + i * 10 AND id < first + i * 10 + 10;
        UPDATE pgjobs_job
        SET status = 'SUCCESSFUL', finished_at = clock_timestamp(), worker_id = NULL
        WHERE id >= first + i * 10 AND id < first + i * 10 + 10;
    END LOOP;
END $$
"""
# The job table as if there were no keys, uniqueness, dependencies and units.
WITHOUT_FLOW_CONTROL = """
DROP TRIGGER pgjobs_queue_changed ON pgjobs_job;
DROP TRIGGER pgjobs_note_changed ON pgjobs_job;
DROP TRIGGER pgjobs_note_deleted ON pgjobs_job;
DROP TRIGGER pgjobs_note_started ON pgjobs_job;
DROP TRIGGER pgjobs_queue_inserted ON pgjobs_job;
CREATE TRIGGER pgjobs_queue_inserted BEFORE INSERT ON pgjobs_job FOR EACH ROW
    WHEN (NEW.status = 'READY' AND NEW.run_after > statement_timestamp())
    EXECUTE FUNCTION pgjobs_queue_inserted();
DROP INDEX pgjobs_job_unique, pgjobs_job_line, pgjobs_job_lock, pgjobs_job_lock_order,
    pgjobs_job_limit, pgjobs_job_batch, pgjobs_job_rate,
    pgjobs_job_turn;
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


def worker_connection():
    """Return a worker's connection and id: without a worker nothing is admitted."""
    from pgjobs.sql import statement
    from pgjobs.worker.connections.connection import OwnConnection, Watchdog, plan_once

    own = OwnConnection("default", "benchmark", "", Watchdog(), 30, prepare=plan_once)
    row = {"name": "benchmark", "host": "", "pid": 0, "queues": "", "excluded": ""}
    row |= {"slots": 1, "units": None, "lease": 3600, "heartbeat_interval": 3600}
    row |= {"version": "", "manifest_id": None}
    return own, own.execute(statement("register_worker"), row)[0][0]


def clock_of(pid: int) -> Callable[[], float]:
    """Return the clock of a session: the seconds of a processor that it has used.

    The time that passes would say as much about the machine's other work.
    """
    path = Path(f"/proc/{pid}/schedstat")
    return lambda: int(path.read_text().split()[0]) / 1e9


def bound(kind: str, number: int) -> list:
    """Return jobs of a kind, ready to be enqueued."""
    from benchmarks.project.tasks import TASKS

    noop = TASKS["noop"]
    task = {
        "free": noop,
        "own-lock": noop.using(lock="lock-{number}"),
        "own-limit": noop.using(max_running=1, limit_key="key-{number}"),
        "1,000-limit-keys": noop.using(max_running=1, limit_key="key-{number}"),
        "line": noop.using(lock="one"),
        "mutex": noop.using(lock="one", lock_mode="mutex"),
        "limit": noop.using(max_running=1),
        "1,000-locks": noop.using(lock="lock-{number}"),
        "10,000/minute": noop.using(rate="10000/minute"),
        "10,000-rate-keys": noop.using(rate="1/hour", rate_key="key-{number}"),
    }[kind]
    most = 1000 if kind.startswith("1,000") else number
    return [task.bind(n % most) for n in range(number)]


def enqueueing(kind: str, number: str) -> list[float]:
    """Return the processor time in us of one job, enqueued alone and with others."""
    from django.db import connection

    from pgjobs import enqueue_many
    from pgjobs.models import Job

    def session_seconds() -> float:
        return clock_of(connection.connection.info.backend_pid)()

    def used(insert: Callable) -> float:
        begin = time.process_time() + session_seconds()
        insert(bound(kind, int(number)))
        used = time.process_time() + session_seconds() - begin
        return used / int(number) * 1e6

    def one_by_one(jobs: list) -> None:
        for job in jobs:
            Job.objects.insert([job.new_job])

    enqueue_many(bound(kind, 300))
    one_by_one(bound(kind, 300))
    # What it takes depends on all else that the process has made, and not on the kind.
    gc.collect()
    gc.disable()
    return [used(one_by_one), used(enqueue_many)]


def pickup(kind: str, number: str) -> float:
    """Return milliseconds from COMMIT to the start of a job on an idle worker."""
    from threading import Thread

    from benchmarks.project.tasks import HAS_STARTED, MOMENTS, stamp_moment
    from pgjobs.worker import Loop, WorkerOptions

    lock = "lock-{number}" if kind == "own-lock" else None
    loop = Loop(WorkerOptions(slots=10, poll=60.0))
    thread = Thread(target=loop.run)
    thread.start()
    times = []
    for n in range(int(number)):
        time.sleep(0.01)  # until the worker sleeps again
        HAS_STARTED.clear()
        stamp_moment.using(lock=lock).enqueue(n)
        committed = time.perf_counter()
        HAS_STARTED.wait(20)
        times.append(MOMENTS[-1] - committed)
    loop.stop()
    thread.join()
    return statistics.median(times[10:]) * 1000


def claims(waiting: str) -> float:
    """Return the milliseconds of a processor that a claim of one free job takes."""
    from benchmarks.project.tasks import TASKS
    from pgjobs import enqueue_many
    from pgjobs.queue import claiming

    own, worker = worker_connection()
    for _ in range(int(waiting) // 10_000):
        enqueue_many(bound("line", 10_000))
    admit_all(own)
    own.execute("VACUUM ANALYZE pgjobs_job")
    taken = claiming.record_and_claim(own, worker, limit=1)
    assert len(taken.jobs) == (1 if int(waiting) else 0)  # the holder
    clock = clock_of(own.connection.info.backend_pid)
    times = []
    for number in range(200):
        TASKS["noop"].enqueue(number)
        begin = clock()
        brought = claiming.record_and_claim(own, worker, limit=4)
        times.append(clock() - begin)
        assert len(brought.jobs) == 1
    return statistics.median(times) * 1000


def admit_all(own) -> list[float]:
    """Admit until nothing moves; return what each statement took of a processor."""
    from pgjobs.queue import admitting

    clock = clock_of(own.connection.info.backend_pid)
    seconds, position, has_more = [], admitting.BEGINNING, True
    while has_more:
        begin = clock()
        admission = admitting.admit(own.execute, position)
        seconds.append(clock() - begin)
        position, has_more = admission.position, admission.has_more
    return seconds


def admission(kind: str, keys: str) -> list[float]:
    """Return the milliseconds of a processor that admissions take beside so many keys.

    The longest of those that take the jobs in, of those that sweep, and the median of
    those that admit one job more.
    """
    from benchmarks.project.tasks import TASKS
    from pgjobs import enqueue_many
    from pgjobs.queue import admitting

    own, _ = worker_connection()
    for _ in range(2):  # one has the place, one waits
        jobs = bound(kind, int(keys))
        for at in range(0, len(jobs), 10_000):
            enqueue_many(jobs[at : at + 10_000])
    longest = max(admit_all(own))
    clock = clock_of(own.connection.info.backend_pid)
    sweeps, position = [], admitting.BEGINNING
    while not sweeps or position != admitting.BEGINNING:
        begin = clock()
        position = admitting.admit(own.execute, position, sweeps=True).position
        sweeps.append(clock() - begin)
    ones = []
    for n in range(50):
        TASKS["noop"].using(lock=f"another-{n}").enqueue(n)
        begin = clock()
        assert admitting.admit(own.execute).admitted == 1
        ones.append(clock() - begin)
    return [longest * 1000, max(sweeps) * 1000, statistics.median(ones) * 1000]


def others(number: str) -> list[float]:
    """Return the seconds of a COMMIT of so many jobs, and of a job of another key.

    The many stand in a queue that no worker serves.
    """
    from threading import Thread

    from django.db import transaction

    from benchmarks.project.tasks import TASKS
    from pgjobs import enqueue_many
    from pgjobs.models import Job
    from pgjobs.worker import Loop, WorkerOptions

    loop = Loop(WorkerOptions(slots=4, queues=("default",)))
    thread = Thread(target=loop.run)
    thread.start()
    task = TASKS["noop"].using(lock="bulk-{number}", queue_name="unserved")
    with transaction.atomic():
        enqueue_many([task.bind(n) for n in range(int(number))])
        begin = time.perf_counter()
    committed = time.perf_counter()
    job = TASKS["noop"].using(lock="innocent", lock_mode="mutex").enqueue(0)
    job.wait(timeout=60)
    finished = time.perf_counter()
    loop.stop()
    thread.join()
    assert Job.objects.filter(status="WAITING").count() == int(number)
    return [committed - begin, finished - committed]


def drain(number: str, kind: str) -> float:
    """Return the jobs per second of one worker process with ten slots."""
    from django.core.management import call_command

    from pgjobs import enqueue_many

    enqueue_many(bound(kind, int(number)))
    begin = time.perf_counter()
    call_command("runjobs", "--drain", "--concurrency", "10", verbosity=0)
    return int(number) / (time.perf_counter() - begin)


def chains(kind: str, number: str) -> float:
    """Return the jobs per second of one worker process, in chains or not."""
    from django.core.management import call_command

    from pgjobs import chain, enqueue, enqueue_many, group

    jobs = bound("free", int(number))
    match kind:
        case "free":
            enqueue_many(jobs)
        case "one":
            enqueue(chain(*jobs))
        case "fives":
            fives = [jobs[at : at + 5] for at in range(0, len(jobs), 5)]
            enqueue(group([chain(*five) for five in fives], then=jobs[0]))
    begin = time.perf_counter()
    call_command("runjobs", "--drain", "--concurrency", "10", verbosity=0)
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
    """Run code in a database that has nothing but the tables."""
    if not server.has_database("tables"):
        in_project("setup", server.create_database("tables"))
    return in_project(code, server.create_database("locks", template="tables"))


def compare_enqueueing(server: Server, kind: str) -> None:
    """Compare the processor time of client and server with that of a free job."""
    rounds = [
        [fresh(server, f"enqueueing {each} 5000") for each in ("free", kind)]
        for _ in range(ROUNDS)
    ]
    for index, how in enumerate(("alone", "with others")):
        pairs = [(free[index], keyed[index]) for free, keyed in rounds]
        first, second = (statistics.median(each) for each in zip(*pairs, strict=True))
        quotient = statistics.median(b / a for a, b in pairs)
        say(
            f"| enqueueing, {kind}, {how} "
            f"| {first:.0f} µs | {second:.0f} µs | {quotient:.2f} |"
        )


def compare(
    title: str, unit: str, one: Callable, other: Callable, rounds: int = ROUNDS
) -> None:
    """Measure both alternately; print the medians and the quotient."""
    pairs = [(one(), other()) for _ in range(rounds)]
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
    with running_server(os.environ.get("DATABASE_URL")) as server:
        say("| | without | with | quotient |\n|---|---|---|---|")
        cost_of_plain_jobs(server)
        for kind in ("own-lock", "own-limit"):
            compare_enqueueing(server, kind)
        compare(
            "COMMIT to start on an idle worker, own lock",
            "ms",
            lambda: fresh(server, "pickup free 200"),
            lambda: fresh(server, "pickup own-lock 200"),
        )
        compare(
            "processor time of a claim of a free job behind 300,000 of one lock",
            "ms",
            lambda: fresh(server, "claims 0"),
            lambda: fresh(server, "claims 300000"),
            rounds=1,
        )
        for kind, number in DRAINS.items():
            compare(
                f"drain: {kind}",
                "jobs/s",
                lambda number=number: fresh(server, f"drain {number} free"),
                lambda kind=kind, number=number: fresh(
                    server, f"drain {number} {kind}"
                ),
            )
        for kind, number in (("one", 500), ("fives", 5000)):
            compare(
                "drain: a chain of 500" if kind == "one" else "drain: chains of five",
                "jobs/s",
                lambda number=number: fresh(server, f"chains free {number}"),
                lambda kind=kind, number=number: fresh(
                    server, f"chains {kind} {number}"
                ),
            )
        for kind, keys in (("own-limit", 100_000), ("10,000-rate-keys", 10_000)):
            longest, sweep, one = fresh(server, f"admission {kind} {keys}")
            say(
                f"\nProcessor time of an admission while {keys:,} keys are waited for "
                f"({kind}): the longest {longest:.0f} ms, of a sweep {sweep:.0f} ms; "
                f"one job more {one:.1f} ms."
            )
        commit, delay = fresh(server, "others 20000")
        say(
            f"COMMIT of 20,000 jobs with keys: {commit:.2f} s; a job of another key, "
            f"enqueued after it, has ended {delay:.2f} s later."
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
        runs = (setup, whole, enqueueing, pickup, claims, admission, others)
        runs += (drain, chains, unique)
        run = {each.__name__: each for each in runs}[name]
        say(json.dumps(run(*arguments)))
    else:
        main()
