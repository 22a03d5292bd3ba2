"""Workers that poll, while commits wait for one another to notify."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations_with_replacement
from math import inf
from pathlib import Path

import pytest

import pgjobs
from pgjobs import enqueue
from pgjobs.models import Job
from pgjobs.sql import statement
from pgjobs.worker import notify_or_poll
from pgjobs.worker.connections.listener import Listener
from tests import tasks
from tests.actors import Session, session
from tests.processes import running_worker, shared_queue, wait_for, wait_for_status

pytestmark = [shared_queue, pytest.mark.direct(why="holds locks of a session")]

TRIGGER = Path(pgjobs.__file__).parent / "database/functions/jobs/notify_inserted.sql"
INSERT = "INSERT INTO pgjobs_job (task, kwargs) VALUES ('tests.noop', '{}')"
READY = "SELECT count(*) FROM pgjobs_job WHERE status = 'READY'"
SOURCE = TRIGGER.read_text()
# What the function asks, in its order.
TAKES_LOCK = "pg_catalog.pg_try_advisory_xact_lock_shared(1885825645, 0)"
FIRST_QUESTION = "            WHEN NOT pg_catalog.pg_try_advisory_lock(\n"
LAST_QUESTION = "            ELSE NOT pg_catalog.pg_advisory_unlock("
# A gate in the function: an INSERT waits there for the test.
GATE = """
    WHEN pg_catalog.pg_advisory_lock_shared(4711)::text IS NULL THEN true
    WHEN NOT pg_catalog.pg_advisory_unlock_shared(4711) THEN true
"""
GATED = SOURCE.replace(FIRST_QUESTION, GATE + FIRST_QUESTION, 1)
NO_LOCK = GATED.replace(TAKES_LOCK, "true")
LATE_LOCK = (
    SOURCE.replace(TAKES_LOCK, "true")
    .replace(LAST_QUESTION, LAST_QUESTION.replace("ELSE", "WHEN"))
    .replace("        END;", f"    THEN true {GATE} ELSE NOT {TAKES_LOCK} END;")
)


class Watcher:
    """The session of a worker that is told of new jobs, or polls."""

    def __init__(self, session: Session, *queues: str):
        self.session = session
        self.queues = {"queues": list(queues or [""])}
        session.listen("pgjobs")
        self.want(was_polling=False)

    def want(self, was_polling: bool = True) -> None:
        parameters = self.queues | {"was_polling": was_polling}
        self.session.execute(statement("want_notifications"), parameters)

    def poll_constantly(self) -> None:
        self.session.execute(statement("need_no_notifications"), self.queues)

    def all_have_ended(self) -> bool:
        return self.session.execute(statement("silent_ones_ended")) == [(True,)]

    def sees_jobs(self) -> bool:
        return self.session.execute(READY) != [(0,)]


@contextmanager
def watching(*queues: str) -> Iterator[Watcher]:
    with session() as own:
        yield Watcher(own, *queues)


# One insertion and one worker


def test_job_notifies_while_its_worker_wants_that():
    with watching() as watcher, session() as producer:
        producer.execute(INSERT)
        assert watcher.session.heard() == [("pgjobs", "default")]


def test_job_does_not_notify_while_all_workers_poll():
    with watching() as watcher, watching() as other, session() as producer:
        watcher.poll_constantly()
        other.poll_constantly()
        producer.execute(INSERT)
        assert watcher.session.heard() == other.session.heard() == []


def test_job_notifies_if_one_of_two_workers_wants_that():
    with watching() as watcher, watching() as other, session() as producer:
        other.poll_constantly()
        producer.execute(INSERT)
        assert watcher.session.heard() == [("pgjobs", "default")]


def test_job_notifies_without_any_worker():
    with session() as listener, session() as producer:
        listener.listen("pgjobs")
        producer.execute(INSERT)
        assert listener.heard() == [("pgjobs", "default")]


@pytest.mark.parametrize(
    ("queues", "heard"), [((), 1), (("default",), 1), (("mail", "default"), 1)]
)
def test_job_notifies_the_workers_of_its_queue(queues, heard):
    with watching() as busy, watching(*queues) as watcher, session() as producer:
        busy.poll_constantly()
        producer.execute(INSERT)
        assert len(watcher.session.heard()) == heard


def test_job_does_not_notify_the_workers_of_other_queues():
    with watching() as busy, watching("mail") as watcher, session() as producer:
        busy.poll_constantly()
        producer.execute(INSERT)
        assert watcher.session.heard() == []


def test_worker_that_dies_while_it_polls_leaves_nothing_behind():
    with session() as listener, session() as producer:
        listener.listen("pgjobs")
        with watching() as watcher:
            watcher.poll_constantly()
        wait_for(lambda: no_locks(listener), "its session has ended")
        producer.execute(INSERT)
        assert listener.heard() == [("pgjobs", "default")]


def no_locks(asking: Session) -> bool:
    polling = "SELECT 1 FROM pg_locks WHERE classid::bigint = x'70676a6c'::bigint"
    return not asking.execute(polling)


@pytest.mark.parametrize(
    "changes",
    [
        "run_after = now() + interval '1 hour'",
        """keys = '{"lock": "door"}'""",
    ],
)
def test_only_a_ready_job_is_left_to_the_polls(changes):
    name, _, value = changes.partition(" = ")
    with watching() as watcher, session() as producer:
        watcher.session.listen("pgjobs_admission")
        watcher.poll_constantly()
        insert = INSERT.replace("kwargs)", f"kwargs, {name})")
        producer.execute(insert.replace("'{}')", f"'{{}}', {value})"))
        assert len(watcher.session.heard()) == 1


def test_worker_waits_for_all_that_did_not_notify():
    with watching() as watcher, session() as producer:
        watcher.poll_constantly()
        producer.begin()
        producer.execute(INSERT)
        watcher.want()
        assert not watcher.all_have_ended()
        producer.commit()
        assert watcher.all_have_ended()
        assert watcher.sees_jobs()


def test_savepoint_that_is_rolled_back_takes_its_silence_along():
    with watching() as watcher, session() as producer:
        watcher.poll_constantly()
        producer.begin()
        producer.execute("SAVEPOINT before")
        producer.execute(INSERT)
        producer.execute("ROLLBACK TO SAVEPOINT before")
        watcher.want()
        assert watcher.all_have_ended()
        producer.execute(INSERT)
        producer.commit()
        assert watcher.session.heard() == [("pgjobs", "default")]


def test_prepared_statement_sees_what_workers_want_now():
    with watching() as watcher, session() as producer:
        producer.execute(f"PREPARE enqueue AS {INSERT}")
        for _ in range(10):  # with a generic plan, too
            watcher.poll_constantly()
            producer.execute("EXECUTE enqueue")
            assert watcher.session.heard() == []
            watcher.want()
            producer.execute("EXECUTE enqueue")
            assert watcher.session.heard() == [("pgjobs", "default")]


# Every order of their steps

# The steps of a transaction that inserts, and those of a worker that goes to sleep. The
# worker takes each of its steps before or after some of the others: 0 is before all.
Steps = list[Callable[[Watcher], bool]]


def wants(watcher: Watcher) -> bool:
    watcher.want()
    return True


SLEEPS: Steps = [wants, Watcher.all_have_ended, Watcher.sees_jobs]


class Insertion(threading.Thread):
    """A transaction that inserts, and stops at the gate."""

    def __init__(self, producer: Session, gate: Session, isolation: str):
        super().__init__()
        self.producer = producer
        self.gate = gate
        self.isolation = isolation

    def steps(self) -> Iterator[None]:
        self.producer.execute(f"BEGIN ISOLATION LEVEL {self.isolation}")
        yield
        self.producer.execute(READY)  # takes the snapshot
        self.gate.execute("SELECT pg_advisory_lock(4711)")
        yield
        self.start()
        wait_for(self.has_stopped, "the INSERT is at the gate, or has notified")
        yield
        self.gate.execute("SELECT pg_advisory_unlock(4711)")
        self.join()
        yield
        self.producer.commit()
        yield

    def run(self) -> None:
        self.producer.execute(INSERT)

    def has_stopped(self) -> bool:
        waiting = "SELECT 1 FROM pg_locks WHERE objid = 4711 AND NOT granted"
        return not self.is_alive() or bool(self.gate.execute(waiting))


MOMENTS = 6  # before, between and after the steps of an insertion


def is_lost(
    watcher: Watcher, insertion: Insertion, sleeps: Steps, moments: tuple[int, ...]
) -> bool:
    """Whether the worker sleeps, and has neither seen the job nor heard of it."""
    results: dict[Callable, bool] = {}
    steps = insertion.steps()
    for moment in range(MOMENTS):
        for step, at in zip(sleeps, moments, strict=True):
            if at == moment:
                results[step] = step(watcher)
        next(steps, None)
    asleep = results.get(Watcher.all_have_ended, True)
    seen = results[Watcher.sees_jobs]
    return asleep and not seen and watcher.session.heard() == []


def lost(function: str, sleeps: Steps) -> list[tuple[str, tuple[int, ...]]]:
    """Return the orders of steps in which a job is lost with this trigger function."""
    found = []
    with (
        watching() as watcher,
        watching() as busy,
        session() as producer,
        session() as gate,
    ):
        gate.execute(function)
        # What a transaction of REPEATABLE READ inserts is first looked at for pauses.
        watcher.session.listen("pgjobs_admission")
        busy.poll_constantly()
        for isolation in ("READ COMMITTED", "REPEATABLE READ"):
            for moments in combinations_with_replacement(range(MOMENTS), len(sleeps)):
                watcher.poll_constantly()
                insertion = Insertion(producer, gate, isolation)
                if is_lost(watcher, insertion, sleeps, moments):
                    found.append((isolation, moments))
                gate.execute("DELETE FROM pgjobs_job")
                watcher.session.heard()
    return found


@pytest.fixture
def own_trigger():
    yield
    with session() as owner:
        owner.execute(SOURCE)


@pytest.mark.usefixtures("own_trigger")
def test_no_job_is_lost_in_any_order_of_the_steps():
    assert lost(GATED, SLEEPS) == []


def never_waits(watcher: Watcher) -> bool:
    return True


ENDED, SEES = Watcher.all_have_ended, Watcher.sees_jobs


@pytest.mark.slow
@pytest.mark.usefixtures("own_trigger")
@pytest.mark.parametrize(
    ("function", "sleeps"),
    [
        pytest.param(NO_LOCK, SLEEPS, id="no lock"),
        pytest.param(LATE_LOCK, SLEEPS, id="the lock after the question"),
        pytest.param(GATED, [wants, SEES], id="no wait for those that are silent"),
        pytest.param(GATED, [wants, SEES, ENDED], id="the poll before that wait"),
        pytest.param(GATED, [ENDED, wants, SEES], id="the wait before the wish"),
        pytest.param(GATED, [ENDED, SEES], id="no wish"),
    ],
)
def test_each_step_is_needed(function, sleeps):
    assert lost(function, sleeps)


# A worker


@pytest.fixture
def crowd(monkeypatch):
    """Let workers believe that commits wait for one another, as long as it is set."""
    monkeypatch.setattr(notify_or_poll, "MANY", 1)
    monkeypatch.setattr(notify_or_poll, "ASK_SECONDS", 0)
    monkeypatch.setattr(notify_or_poll, "PATIENCE", 0.1)
    ask, waiting = Listener.ask, threading.Event()

    def answered(self, name, **parameters):
        answer = ask(self, name, **parameters)
        return waiting.is_set() if name == "commits_wait" else answer

    monkeypatch.setattr(Listener, "ask", answered)
    return waiting


def run_jobs_until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")


def test_worker_polls_while_commits_wait_and_is_notified_later(crowd):
    with running_worker(poll=600) as loop:
        wait_for(
            lambda: loop.notify_or_poll.phase == "listening", "it wants notifications"
        )
        crowd.set()
        run_jobs_until(lambda: loop.notify_or_poll.phase == "polling")
        heard = loop.listener.heard
        loop.notify_or_poll.busy_at = inf  # it stays patient
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
        assert loop.listener.heard == heard
        crowd.clear()
        loop.notify_or_poll.busy_at = 0.0
        wait_for(lambda: loop.notify_or_poll.phase == "listening", "it has caught up")
        wait_for(lambda: loop.bell.alarm, "it sleeps")
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
        assert loop.listener.heard > heard


def test_worker_finds_a_job_whose_transaction_was_silent_and_lasted(crowd):
    with running_worker(poll=600) as loop, session() as producer:
        wait_for(
            lambda: loop.notify_or_poll.phase == "listening", "it wants notifications"
        )
        crowd.set()
        run_jobs_until(lambda: loop.notify_or_poll.phase == "polling")
        crowd.clear()
        producer.begin()
        producer.execute(INSERT)
        wait_for(lambda: loop.notify_or_poll.phase == "catching up", "it waits")
        producer.commit()
        wait_for(lambda: loop.notify_or_poll.phase == "listening", "it has caught up")
        wait_for(lambda: not Job.objects.ready().exists(), "the job is found")


def test_worker_that_lost_its_connection_settles_again(crowd):
    with running_worker(poll=600) as loop:
        wait_for(
            lambda: loop.notify_or_poll.phase == "listening", "it wants notifications"
        )
        crowd.set()
        run_jobs_until(lambda: loop.notify_or_poll.phase == "polling")
        crowd.clear()
        before = loop.listener.connection
        with session() as operator:
            pid = before.info.backend_pid
            operator.execute(f"SELECT pg_terminate_backend({pid})")
        wait_for(lambda: loop.listener.connection not in (before, None), "it is back")
        wait_for(lambda: loop.notify_or_poll.phase == "listening", "it has caught up")


def test_no_commit_waits_where_nothing_happens():
    with session() as asking:
        assert asking.execute(statement("commits_wait")) == [(False,)]
