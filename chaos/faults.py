"""What each kind of fault does: a function that yields while the fault lasts.

A fault says whom it met: the jobs that were RUNNING there at that moment.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import psycopg

from .fleet import FAKETIME, Fleet, Member, signal_group
from .proxy import Network, Trouble
from .server import Server
from .timeline import Planned

LONGEST_WAIT = 1.5  # seconds, for a worker that runs a job
EVERYBODY = "everybody"
RUNNING = """
SELECT worker.name, worker.pid, worker.id, job.id, job.lease_token
FROM pgjobs_worker AS worker LEFT JOIN pgjobs_job AS job
    ON job.worker_id = worker.id AND job.status = 'RUNNING'
WHERE worker.lease_until > clock_timestamp()
ORDER BY worker.name, job.id
"""


class Skipped(Exception):
    """This machine does not allow the fault, or there was nothing to meet."""


@dataclass
class Fault:
    """What happened, for the report and the checker."""

    kind: str
    began_at: float
    ended_at: float = 0.0
    target: str = EVERYBODY
    pids: list[int] = field(default_factory=list)
    met: list[tuple[int, int]] = field(default_factory=list)  # jobs, by id and token
    skipped: str = ""

    def as_record(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Victim:
    """A worker process, with the jobs that it runs."""

    name: str
    pid: int
    jobs: list[tuple[int, int]]


@dataclass
class Stage:
    """All that faults act upon."""

    server: Server
    network: Network
    fleet: Fleet

    def victims(self) -> list[Victim]:
        """Return the living workers, by name."""
        found: dict[str, Victim] = {}
        with self.server.connect() as connection:
            for name, pid, _, job, token in connection.execute(RUNNING):
                victim = found.setdefault(name, Victim(name, pid, []))
                if job is not None:
                    victim.jobs.append((job, token))
        return list(found.values())

    def victim(self, fault: Fault, draw: float) -> Victim:
        """Choose a worker, one that runs a job if there soon is one; note it."""
        deadline = time.monotonic() + LONGEST_WAIT
        while True:
            everyone = self.victims()
            working = [victim for victim in everyone if victim.jobs]
            if working or time.monotonic() > deadline:
                break
            time.sleep(0.01)
        candidates = working or everyone
        if not candidates:
            raise Skipped("no worker is alive")
        chosen = candidates[int(draw * len(candidates))]
        fault.target, fault.met = chosen.name, chosen.jobs
        fault.pids = [chosen.pid]
        return chosen

    def meet_all(self, fault: Fault) -> None:
        """Note all workers, and all that they run."""
        everyone = self.victims()
        fault.pids = [victim.pid for victim in everyone]
        fault.met = [job for victim in everyone for job in victim.jobs]


Happening = Callable[[Stage, Fault, float], Iterator[None]]
FAULTS: dict[str, Callable] = {}


def fault(kind: str):
    """Register what a kind of fault does."""

    def register(happening: Happening):
        FAULTS[kind] = contextmanager(happening)
        return happening

    return register


def inflict(stage: Stage, planned: Planned) -> Fault:
    """Let one fault happen and end; return what it met."""
    happened = Fault(planned.kind, time.time())
    try:
        with FAULTS[planned.kind](stage, happened, planned.draw):
            time.sleep(planned.seconds)
    except Skipped as reason:
        happened.skipped = str(reason)
    except (psycopg.Error, OSError) as error:
        happened.skipped = f"{type(error).__name__}: {error}".strip()
    happened.ended_at = time.time()
    return happened


# Processes


@fault("kill a worker")
def kill_worker(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    send(stage.victim(fault, draw).pid, signal.SIGKILL)
    yield


@fault("kill a starting worker")
def kill_starting(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """Kill a worker, and the one that comes in its place before it has registered."""
    member = drawn(lone_members(stage), draw)
    fault.target = f"{member.name}.{member.generation}"
    before = member.process
    stage.meet_all(fault)
    fault.met = []
    signal_group(before, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while member.process is before and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(draw)  # somewhere in its start, which takes about a second
    signal_group(member.process, signal.SIGKILL)
    yield


@fault("kill a supervisor")
def kill_supervisor(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    member = drawn(supervisors(stage), draw)
    meet_member(stage, fault, member)
    send(member.process.pid, signal.SIGKILL)
    yield


@fault("stop a worker for longer than its lease")
@fault("stop a worker for a moment")
def stop_worker(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    pid = stage.victim(fault, draw).pid
    send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        send(pid, signal.SIGCONT)


@fault("stop a supervisor")
def stop_supervisor(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    member = drawn(supervisors(stage), draw)
    meet_member(stage, fault, member)
    pid = member.process.pid
    send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        send(pid, signal.SIGCONT)


@fault("deploy")
def deploy(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """Replace a member by the next release, which knows one task more or less."""
    member = drawn(stage.fleet.members, draw)
    meet_member(stage, fault, member)
    stage.fleet.release += 1
    stage.fleet.deploy(member)
    yield


@fault("step the clock of a worker")
def step_clock(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    if FAKETIME is None:
        raise Skipped("faketime is not installed")
    member = next(each for each in stage.fleet.members if each.has_own_clock)
    meet_member(stage, fault, member)
    stage.fleet.step_clock(["-1d", "-30", "+30", "+2h"][int(draw * 4)])
    try:
        yield
    finally:
        stage.fleet.step_clock("+0")


# Sessions and the network


@fault("terminate sessions of a worker")
def terminate_some(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """End one of its sessions, or all: the loop's, the heartbeat's, a job's..."""
    name = stage.victim(fault, draw).name
    with stage.server.connect() as connection:
        sessions = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE starts_with(application_name, "
            "'pgjobs:') AND application_name LIKE '%%' || %s OR application_name = %s "
            "ORDER BY backend_start",
            [f":{name}", f"chaos:task:{name}"],
        ).fetchall()
        if not sessions:
            raise Skipped("it has no sessions")
        some = sessions if draw > 0.7 else [sessions[int(draw * len(sessions))]]
        for (pid,) in some:
            connection.execute("SELECT pg_terminate_backend(%s)", [pid])
    yield


@fault("terminate all sessions")
def terminate_all(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    stage.meet_all(fault)
    with stage.server.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
    yield


@fault("stop and start the server")
def restart(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    stage.meet_all(fault)
    stage.server.stop("immediate" if draw > 0.2 else "fast")
    try:
        yield
    finally:
        stage.server.start()


def troubling(kind: str, trouble: Trouble, of_one: bool) -> None:
    """Register a trouble of the network, of one worker or of all programs."""

    @fault(kind)
    def happening(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
        if of_one:
            part = f":{stage.victim(fault, draw).name}"
        else:
            part = ":"
            stage.meet_all(fault)
        stage.network.begin(part, trouble)
        try:
            yield
        finally:
            stage.network.end(part)


troubling("freeze the network of a worker", Trouble.FREEZE, of_one=True)
troubling("freeze the network", Trouble.FREEZE, of_one=False)
troubling("cut the network of a worker", Trouble.CUT, of_one=True)
troubling("cut the network", Trouble.CUT, of_one=False)
troubling("slow network", Trouble.SLOW, of_one=False)
troubling("swallow answers", Trouble.SWALLOW, of_one=True)


# The disk


@fault("full disk")
def fill_disk(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """Fill the disk; the server may die of it, and comes back once there is room."""
    disk = stage.server.disk
    if not disk.is_small:
        raise Skipped("mounting a tmpfs is not allowed here")
    stage.meet_all(fault)
    disk.fill()
    disk.fill_up()
    try:
        yield
    finally:
        disk.free()
        stage.server.bring_up()


# Locks, snapshots and upkeep by others


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
    fault.target = queue
    change = "UPDATE pgjobs_queue SET paused_at = {} WHERE name = %s"
    with stage.server.connect("chaos:operator") as connection:
        connection.execute(change.format("now()"), [queue])
        try:
            yield
        finally:
            connection.execute(change.format("NULL"), [queue])


# What somebody inserts


@fault("a job that ends its process")
def insert_exit(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    fault.target = "the worker that claims it"
    with stage.server.connect("chaos:hostile") as connection:
        connection.execute(
            "INSERT INTO pgjobs_job (task, kwargs, max_crashes, priority) "
            "VALUES ('project.exits', '{\"mark\": \"hostile\"}', 2, 50)"
        )
    yield


POISON = [
    "(task, kwargs) VALUES ('poison.unknown', '{}')",
    "(task, kwargs) VALUES ('project.work', '{\"mark\": 5, \"no such\": 1}')",
    "(task, kwargs) VALUES ('project.work', ('{\"mark\": ' || repeat('9', 5000) || '}')"
    "::jsonb)",
    "(task, kwargs) VALUES ('project.work', (repeat('{\"a\":', 3000) || '1' || "
    "repeat('}', 3000))::jsonb)",
    "(task, kwargs, run_after) VALUES ('project.work', '{}', '9998-12-31')",
    "(task, kwargs, queue_name) VALUES ('project.work', '{\"mark\": \"\\u202e\"}', "
    "repeat('q', 200))",
    "(task, kwargs, status, worker_id, attempts) VALUES ('project.work', '{}', "
    "'RUNNING', 9223372036854775807, 1)",
    "(task, kwargs, run_after) VALUES ('project.work', '{}', 'infinity')",
    "(task, kwargs, keys) VALUES ('project.work', '{}', '{\"lock\": 5}')",
]


@fault("poisonous rows")
def insert_poison(stage: Stage, fault: Fault, draw: float) -> Iterator[None]:
    """Insert what a psql user may; what the table refuses is no poison."""
    taken = 0
    with stage.server.connect("chaos:poison") as connection:
        for row in POISON:
            with suppress(psycopg.errors.IntegrityError, psycopg.DataError):
                connection.execute(f"INSERT INTO pgjobs_job {row}")
                taken += 1
    fault.target = f"{taken} rows"
    yield


# What they choose from


def supervisors(stage: Stage) -> list[Member]:
    return [member for member in stage.fleet.members if member.processes]


def lone_members(stage: Stage) -> list[Member]:
    return [member for member in stage.fleet.members if not member.processes]


def drawn(members: list[Member], draw: float) -> Member:
    return members[int(draw * len(members))]


def meet_member(stage: Stage, fault: Fault, member: Member) -> None:
    """Note a member, and what its workers run."""
    fault.target = f"{member.name}.{member.generation}"
    mine = [
        victim for victim in stage.victims() if victim.name.startswith(fault.target)
    ]
    fault.pids = [member.process.pid, *(victim.pid for victim in mine)]
    fault.met = [job for victim in mine for job in victim.jobs]


def send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
