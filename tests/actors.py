"""Actors on the queue: other sessions, and workers one statement at a time."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from django.db import DatabaseError, connection, connections, transaction
from django.utils import timezone
from psycopg.errors import LockNotAvailable

from pgjobs.base.connections import connect
from pgjobs.models import Attempt, Batch, Job, Status, Worker
from pgjobs.queue import admitting, claiming, recording, statements, upkeep
from pgjobs.queue.claiming import ClaimedJob
from pgjobs.queue.recording import Recorded, Success, Unsuccessful
from pgjobs.sql import statement
from pgjobs.worker.upkeep.chores import questions
from tests.processes import wait_for
from tests.settings import DIRECT
from tests.tasks import noop

MARK = "pgjobs_test_mark"
BEAT = {"lease": 30, "echoes": True, "held": [], "leads": True, "with_ready": True}
MOST_TRIES = 1_000  # of an admission, each of which waits a moment for a lock
# How many sessions wait for a lock; those of other databases do not count.
WAITING_SESSIONS = """
SELECT count(*) FROM pg_locks AS waiting
WHERE NOT granted AND EXISTS (
    SELECT FROM pg_locks AS held JOIN pg_database ON pg_database.oid = held.database
    WHERE held.pid = waiting.pid AND held.granted AND datname = current_database()
)
"""
# Whether a session waits for a lock that this one holds.
SESSION_WAITS = """
SELECT EXISTS (
    SELECT FROM pg_locks
    WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))
)
"""


def execute(sql: str, parameters: dict | None = None) -> list[tuple]:
    """Run a statement on Django's connection; return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []


def survey(worker_id: int, with_ready: bool = True) -> upkeep.Chores:
    """Ask what there is to do, as a worker does, on Django's connection."""
    return upkeep.chores(execute, questions(), worker_id, with_ready, leads_for=60)


class Session:
    """A database session beside Django's, whose transactions the test ends itself.

    It is the server's own, even if everything else goes through a pooler.
    """

    def __init__(self, **changes):
        parameters = {**DIRECT, **changes}
        self.connection = connect("default", "test", "session", **parameters)

    def execute(self, sql: str, parameters: dict | None = None) -> list[tuple]:
        cursor = self.connection.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []

    def begin(self) -> None:
        self.execute("BEGIN")

    def commit(self) -> None:
        self.execute("COMMIT")

    def rollback(self) -> None:
        self.execute("ROLLBACK")

    def listen(self, *channels: str) -> None:
        for channel in (*channels, MARK):
            self.execute(f"LISTEN {channel}")

    def heard(self) -> list[tuple[str, str]]:
        """Return (channel, payload) of what was committed since the last call."""
        self.execute(f"NOTIFY {MARK}")  # committed after everything that matters
        heard = []
        for each in self.connection.notifies(timeout=20):
            if each.channel == MARK:
                return heard
            heard.append((each.channel, each.payload))
        raise AssertionError("not even the mark arrived")


@contextmanager
def session(**changes) -> Iterator[Session]:
    """Open a session; changes go into its connection parameters."""
    made = Session(**changes)
    try:
        yield made
    finally:
        made.connection.close()


@contextmanager
def in_thread(function: Callable, *args, **kwargs) -> Iterator[Future]:
    """Call the function in a thread, which has Django connections of its own."""

    def body():
        try:
            return function(*args, **kwargs)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(body)


def overlapping(first: Callable, second: Callable):
    """Do `first` in a transaction; commit once another session waits in `second`.

    Returns what both return. `second` may also end without waiting.
    """
    with ExitStack() as stack:
        with transaction.atomic():
            result = first()
            future = stack.enter_context(in_thread(second))
            wait_for(
                lambda: future.done() or execute(SESSION_WAITS)[0][0],
                "the second waits for the first",
            )
        return result, future.result(timeout=60)


class OneByOne:
    """A client that runs each statement alone."""

    def __init__(self, execute: statements.Execute):
        self.execute = execute

    def together(self, several: list[statements.Statement]) -> list[list[tuple]]:
        return [self.execute(*each) for each in several]


class Hand:
    """A worker without threads. The test calls each of its statements."""

    def __init__(
        self, name: str = "hand", execute: statements.Execute = execute, **columns
    ):
        now = timezone.now()
        self.execute = execute
        self.row = Worker.objects.create(
            name=name,
            **{
                "host": "here",
                "pid": 1,
                "slots": 4,
                "started_at": now,
                "heartbeat_at": now,
                "beating_since": now - timedelta(hours=1),
                "lease_until": now + timedelta(seconds=30),
                "heartbeat_interval": 5,
                "holds_session_lock": False,
                **columns,
            },
        )
        self.id = self.row.pk

    def record_and_claim(
        self, *successes: Success, limit: int = 0, **options
    ) -> claiming.Claimed:
        """Fetch from each queue, or as the options say."""
        options.setdefault("fetch", claiming.first_fetch(limit, by_queue=limit > 0))
        return claiming.record_and_claim(
            OneByOne(self.execute), self.id, successes=successes, limit=limit, **options
        )

    def claim(self, limit: int = 1, *, is_idle: bool = True, **options):
        """Admit what waits, as a worker does, and return the claimed jobs."""
        admit(self.execute)
        return self.record_and_claim(limit=limit, is_idle=is_idle, **options).jobs

    def claim_one(self) -> ClaimedJob:
        (job,) = self.claim()
        return job

    def succeed(self, job: ClaimedJob, return_value: str | None = None) -> bool:
        """Record a success; return whether it counted."""
        token = job.lease_token
        success = Success(job.id, token, return_value)
        return self.record_and_claim(success).recorded == {token}

    def record(self, *unsuccessful: Unsuccessful) -> list[Recorded]:
        return recording.record(self.execute, self.id, self.row.name, unsuccessful)

    def set_back(self, job: ClaimedJob, verdict: str, reason="", **how) -> str | None:
        """Record an attempt that did not succeed; return the job's status.

        Returns None if the record did not count.
        """
        unsuccessful = Unsuccessful(job.id, job.lease_token, verdict, reason, **how)
        recorded = self.record(unsuccessful)
        assert [each.lease_token for each in recorded] in ([], [job.lease_token])
        return recorded[0].status if recorded else None

    def rescue(self) -> list[upkeep.Rescued]:
        return upkeep.rescue(self.execute, self.id)

    def beat(self) -> None:
        """Give a sign of life."""
        self.execute(
            statement("heartbeat"),
            {**vars(self.row), **BEAT},
        )

    def vanish(self) -> None:
        """Leave as a pruned or stopped worker does: without a row."""
        Worker.objects.filter(pk=self.id).delete()

    def fall_silent(self, seconds: float) -> None:
        """Move the last sign of life into the past."""
        ago = timedelta(seconds=seconds)
        self.row.refresh_from_db()
        Worker.objects.filter(pk=self.id).update(
            heartbeat_at=self.row.heartbeat_at - ago,
            lease_until=self.row.lease_until - ago,
        )


def run_next(verdict: str = "SUCCESS", hand: Hand | None = None) -> int:
    """Claim the next job and record how it ends; return its id."""
    hand = hand or Hand()
    job = hand.claim_one()
    if verdict == "SUCCESS":
        assert hand.succeed(job)
    else:
        assert hand.set_back(job, verdict)
    return job.id


def admit(execute: statements.Execute = execute, sweeps: bool = True) -> int:
    """Do what a worker does with jobs that wait; return how many it admitted.

    Sweeps all lines until nothing moves, or looks only at what rows and notes say.
    """
    total, position = 0, admitting.BEGINNING
    while True:
        admission = try_to_admit(execute, position, sweeps)
        if admission.admitted is None:  # another worker admits
            return total
        total += admission.admitted
        position = admission.position
        has_more = admission.admitted or admission.ended or admission.has_more
        if not has_more and position == admitting.BEGINNING:
            return total


def try_to_admit(
    execute: statements.Execute, position: admitting.Position, sweeps: bool
) -> admitting.Admission:
    """Admit; as a worker does, try again while autovacuum holds a table."""
    for _ in range(MOST_TRIES):
        try:
            return admitting.admit(execute, position, sweeps)
        except (DatabaseError, LockNotAvailable) as error:
            is_locked = isinstance(error.__cause__ or error, LockNotAvailable)
            if connection.in_atomic_block or not is_locked:
                raise
    raise AssertionError("a lock has kept each admission out")


def statuses() -> list[str]:
    """Let a worker admit jobs; return the statuses of all, in the order of ids."""
    admit()
    return stored_statuses()


def stored_statuses() -> list[str]:
    """Return the statuses of all jobs, in the order of their ids."""
    return list(Job.objects.order_by("pk").values_list("status", flat=True))


def pass_time(seconds: float) -> None:
    """Let time pass for the rates."""
    execute(
        "UPDATE pgjobs_rate SET full_at = full_at - span, opens_at = opens_at - span,"
        " even_at = even_at - span,"
        " starts = ARRAY(SELECT start - span FROM unnest(starts) AS start)"
        " FROM make_interval(secs => %(seconds)s) AS span",
        {"seconds": seconds},
    )
    execute(
        "UPDATE pgjobs_note SET keys = keys || jsonb_build_object('rate_started_at',"
        " (keys -> 'rate_started_at')::float8 - %(seconds)s)"
        " WHERE keys ? 'rate_started_at'",
        {"seconds": seconds},
    )


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


def running_job(task=noop, *args, hand: Hand | None = None, **kwargs) -> Job:
    """Return a job that a worker has claimed."""
    job = task.using(priority=100).enqueue(*args, **kwargs)
    (claimed,) = (hand or Hand()).claim()
    assert claimed.id == job.id
    job.refresh_from_db()
    return job


def linked_job(
    *,
    after: Job | Batch | None = None,
    batch: Batch | None = None,
    needs: str = "success",
    **columns,
) -> Job:
    """Insert a job behind another one, or in a batch, as any client may."""
    keys: dict = {} if batch is None else {"batch_id": batch.pk}
    if after is not None:
        name = "after" if isinstance(after, Job) else "after_batches"
        keys |= {name: [after.pk], "needs": needs}
    job = Job.objects.create(**{"task": "tests.noop", "keys": keys, **columns})
    job.refresh_from_db()
    return job


def job_that_is(status: str, **columns) -> Job:
    """Return a job that has come to this status in the usual way."""
    match status:
        case Status.READY:
            job = noop.enqueue()
        case Status.SCHEDULED:
            job = noop.using(run_after=hours(1)).enqueue()
        case Status.WAITING:
            job = noop.enqueue()
            Job.objects.filter(pk=job.pk).update(
                status=Status.WAITING, waiting_for="lock"
            )
            # A trigger has put it in the line of those that have just arrived.
            columns = {"line": "lock door", **columns}
        case Status.RUNNING:
            job = running_job()
        case _:
            job = finished_job(status)
    if columns:
        Job.objects.filter(pk=job.pk).update(**columns)
    job.refresh_from_db()
    return job


def forget_a_job_in_line(queue_name: str = "default") -> None:
    """Leave a job in line that no note names, as after a fault."""
    execute("ALTER TABLE pgjobs_job DISABLE TRIGGER USER")
    Job.objects.create(
        task="tests.noop",
        queue_name=queue_name,
        status="WAITING",
        waiting_for="lock",
        keys={"lock": "a", "is_ordered": True},
        line="lock a",
    )
    execute("ALTER TABLE pgjobs_job ENABLE TRIGGER USER")


def leave_out_triggers(*tables: str) -> None:
    """Write rows of these tables without their triggers, until the transaction ends."""
    execute("SET CONSTRAINTS ALL IMMEDIATE")  # what waits would forbid it
    execute("SET CONSTRAINTS ALL DEFERRED")
    for table in tables:
        execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")


def finished_job(status: str) -> Job:
    hand = Hand()
    job = noop.using(priority=100).enqueue()
    claimed = hand.claim_one()
    match status:
        case Status.SUCCESSFUL:
            assert hand.succeed(claimed, '"result"')
        case Status.FAILED:
            assert hand.set_back(claimed, "FAIL", "Broken.") == status
        case Status.CANCELLED:
            assert hand.set_back(claimed, "CANCEL", "Not needed.") == status
    return job


def fields_of(job: Job) -> dict:
    """Return the row's columns, as the database has them now."""
    return Job.objects.filter(pk=job.pk).values().get()


def attempts_of(job: Job) -> list[tuple[int, int, str, str]]:
    """Return (life, number, outcome, message) of each attempt that is noted."""
    attempts = Attempt.objects.filter(job_id=job.pk).order_by("life", "number")
    return list(attempts.values_list("life", "number", "outcome", "message"))
