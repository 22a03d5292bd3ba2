"""The death of a worker shows in the lock that its sessions have held."""

from datetime import timedelta

import pytest
from django.utils import timezone
from psycopg.errors import InsufficientPrivilege

from pgjobs import enqueue
from pgjobs.models import Job, Worker
from pgjobs.queue import upkeep
from pgjobs.queue.upkeep import LOCK_CLASS
from pgjobs.worker.connections.connection import HOLD_LOCK
from tests import tasks
from tests.actors import Hand, execute, session, survey
from tests.processes import running_worker, shared_queue, wait_for, wait_for_status

pytestmark = [shared_queue, pytest.mark.direct]

KEY, HELD_KEY = 1_234_567_890_123, -9_876_543_210_987
BEAT = 2.5  # seconds
BRISK = {"HEARTBEAT_INTERVAL": 0.4, "LEASE_DURATION": 1.6}


def silent_worker(name: str, **columns) -> Hand:
    """Return a worker with a job that gave its last sign of life 3 seconds ago."""
    own = {"heartbeat_interval": BEAT, "holds_session_lock": True, **columns}
    hand = Hand(name, **own)
    enqueue(tasks.noop)
    assert hand.claim()
    return hand


def at(seconds: float | None):
    return None if seconds is None else timezone.now() - timedelta(seconds=seconds)


def wait_until_connected_for(seconds: float) -> None:
    age = "SELECT clock_timestamp() - backend_start FROM pg_stat_activity WHERE pid = "
    enough = timedelta(seconds=seconds)
    wait_for(lambda: execute(f"{age} pg_backend_pid()")[0][0] > enough)


def test_worker_whose_lock_was_seen_to_be_gone_is_dead_before_a_heartbeat_is_missing():
    # Its key, and for how many seconds it was seen without its lock: dead or not.
    cases = {
        (KEY, 2.5): True,
        (KEY, 1.0): False,  # it may take the lock again
        (KEY, 10.0): False,  # it has given a sign of life since
        (KEY, None): False,
        (None, 2.5): False,  # of release 0.9.0: it notices at its next heartbeat
        (HELD_KEY, 2.5): False,
    }
    rescuer = Hand("rescuer")
    silent_workers = {
        case: silent_worker(f"{case}", lock_key=case[0]) for case in cases
    }
    wait_until_connected_for(1.3 * BEAT + 0.1)
    with session() as process:
        process.execute("SELECT pg_advisory_lock(%(key)s)", {"key": HELD_KEY})
        for (_, seconds), hand in silent_workers.items():
            Worker.objects.filter(pk=hand.id).update(
                heartbeat_at=at(3.0), unlocked_at=at(seconds)
            )
        rescuer.rescue()
    running = set(Job.objects.running().values_list("worker_id", flat=True))
    assert {case: silent_workers[case].id not in running for case in cases} == cases


def test_survey_marks_the_worker_whose_lock_is_gone_and_a_heartbeat_voids_that():
    asking = Hand("asking")
    alive = Hand("alive", lock_key=HELD_KEY)
    dead = Hand("dead", lock_key=KEY)
    with session() as process:
        process.execute("SELECT pg_advisory_lock(%(key)s)", {"key": HELD_KEY})
        found = survey(asking.id)
        assert 1 < found.next_death_in <= 2
        assert found.answers["rescue"] is None
        noted = Worker.objects.filter(unlocked_at__isnull=False)
        assert [each.pk for each in noted] == [dead.id]
        # Another worker that asks later knows, too, and begins no new count.
        Worker.objects.filter(pk=dead.id).update(
            heartbeat_at=at(3.0), unlocked_at=at(2.5)
        )
        assert survey(alive.id).answers["rescue"] == 0
        Worker.objects.filter(pk=dead.id).update(lock_key=HELD_KEY, heartbeat_at=at(0))
        found = survey(asking.id)
        assert (found.next_death_in, found.answers["rescue"]) == (None, None)


def wait_until_gone(pid: int) -> None:
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
    wait_for(lambda: execute(sessions, [pid])[0][0] == 0, "the session has ended")


HOLDS_LOCK = """
SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND application_name LIKE 'pgjobs:heartbeat:%%'
    AND datname = current_database() AND objsubid = 1
"""


@pytest.mark.listening
def test_worker_whose_sessions_were_terminated_takes_its_lock_again_at_once(settings):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    with running_worker(poll=600):
        for _ in range(2):
            ended = execute(
                "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name LIKE 'pgjobs:heartbeat:%%'"
                " AND datname = current_database()"
            )
            assert len(ended) == 1
            wait_until_gone(ended[0][0])
            wait_for(lambda: execute(HOLDS_LOCK)[0][0] == 1, "it holds the lock again")


def test_installations_in_two_schemas_have_locks_of_their_own():
    with session() as other:
        other.begin()
        parameters = {"lock_class": LOCK_CLASS, "id": 7}
        here = other.execute(HOLD_LOCK, parameters)[0][0]
        other.execute("CREATE SCHEMA another")
        other.execute("CREATE TABLE another.pgjobs_worker (id bigint)")
        other.execute("SET LOCAL search_path = another")
        there = other.execute(HOLD_LOCK, parameters)[0][0]
        other.rollback()
    assert here != there


def test_lock_of_another_installation_hides_no_death():
    """Its worker has the same number, and the lock by which release 0.9.0 looks."""
    rescuer, dead = Hand("rescuer"), silent_worker("dead", lock_key=KEY)
    wait_until_connected_for(1.3 * BEAT + 0.1)
    with session() as process:
        process.execute(
            "SELECT pg_advisory_lock(%(class)s, %(id)s)",
            {"class": LOCK_CLASS, "id": dead.id},
        )
        Worker.objects.filter(pk=dead.id).update(heartbeat_at=at(2 * BEAT))
        assert len(rescuer.rescue()) == 1


@pytest.fixture
def many_workers():
    """There have been more than two billion workers before."""
    sequence = "SELECT pg_get_serial_sequence('pgjobs_worker', 'id')"
    ((name,),) = execute(sequence)
    ((last,),) = execute(f"SELECT last_value FROM {name}")
    execute("SELECT setval(%s, %s)", [name, 2**31 + 5])
    yield
    execute("SELECT setval(%s, %s)", [name, last])


@pytest.mark.usefixtures("many_workers")
def test_worker_with_a_number_over_two_billion_runs_and_is_rescued(
    start_worker, settings
):
    settings.PGJOBS = BRISK
    worker = start_worker(settings=BRISK)
    assert Worker.objects.get().pk > 2**31
    wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
    worker.kill()
    with running_worker():
        wait_for(lambda: Worker.objects.count() == 1, "the dead one is forgotten")


# What listens for the dead


LISTENS = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name LIKE 'pgjobs:listen:%%' AND datname = current_database()
"""


@pytest.mark.listening
def test_session_that_listens_for_a_frozen_worker_is_ended(start_worker, settings):
    settings.PGJOBS = BRISK
    worker = start_worker(settings=BRISK)
    wait_for(lambda: execute(LISTENS)[0][0] == 1, "it listens")
    with running_worker():
        assert execute(LISTENS)[0][0] == 2
        worker.freeze()
        wait_for(lambda: execute(LISTENS)[0][0] == 1, "only the living one listens")
        worker.thaw()
        wait_for(lambda: execute(LISTENS)[0][0] == 2, "it listens again")
        assert worker.is_alive


def test_lacking_right_to_end_a_session_is_logged_once(caplog, monkeypatch):
    def refuse(execute, pid):
        raise InsufficientPrivilege("permission denied to terminate process")

    monkeypatch.setattr(upkeep, "left_listeners", lambda execute: [1, 2])
    monkeypatch.setattr(upkeep, "end_session", refuse)
    with running_worker() as loop:
        for _ in range(2):
            loop.upkeep["rescue"].expect()
            loop.bell.ring()
            wait_for(lambda: loop.upkeep["rescue"].due, "it has looked")
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
    refused = [each for each in caplog.messages if "may not end it" in each]
    assert len(refused) == 1
    assert "failed" not in caplog.text
