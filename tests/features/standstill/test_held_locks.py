"""A session that holds what workers need is named, and nothing else stands still."""

import logging
from types import SimpleNamespace

import pytest

from pgjobs import enqueue
from pgjobs.base import queue_database
from pgjobs.features.definitions import declaring
from pgjobs.features.standstill import chore
from pgjobs.features.standstill.chore import HeldLockWarning
from pgjobs.features.standstill.held_locks import held_lock_problems
from pgjobs.models import TaskDefinition
from pgjobs.worker.upkeep.admission import Admitting
from tests.actors import execute, session
from tests.processes import (
    OFTEN,
    WorkerThread,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)
from tests.tasks import noop

pytestmark = shared_queue

LOCKS = {
    "admission": (0x70676A6B, 0),
    "dependencies": (0x70676A64, 0),
    "late events": (0x70676A65,),
    "declarations": (0x70676A73,),
    "limited queue": (0x70676A71, 12),
    "process units": (0x70676A75, 34),
    "failover": (0x70676A74, 0),
}


def hold(own, kind: str) -> int:
    """Let a session take the lock; return its pid."""
    numbers = ", ".join(str(each) for each in LOCKS[kind])
    return own.execute(f"SELECT pg_backend_pid(), pg_advisory_lock({numbers})")[0][0]


@pytest.mark.parametrize("kind", LOCKS)
def test_check_names_the_session_that_holds_a_lock(kind):
    with session() as own:
        own.execute("SET application_name = 'stranger'")
        pid = hold(own, kind)
        (remark,) = held_lock_problems("default")
        assert f"session {pid} " in remark.text and "stranger" in remark.text
    wait_for(lambda: not held_lock_problems("default"), "the session is gone")


@pytest.mark.direct
def test_check_names_the_session_that_keeps_workers_from_listening():
    """They poll meanwhile. A session that nobody waits for is no problem."""
    taking = "SELECT pg_backend_pid(), pg_advisory_lock(1885825646, hashtext(''))"
    with session() as own:
        own.execute("SET application_name = 'stranger'")
        ((pid, _),) = own.execute(taking)
        assert held_lock_problems("default") == []
        with WorkerThread(poll=OFTEN):
            wait_for(lambda: held_lock_problems("default"), "it is named")
            (remark,) = held_lock_problems("default")
            assert f"session {pid} " in remark.text
            wait_for_status(enqueue(noop), "SUCCESSFUL")
            own.execute("SELECT pg_advisory_unlock_all()")


def test_check_names_a_worker_only_if_its_transaction_is_old(monkeypatch):
    with session() as own:
        own.execute("SET application_name = 'pgjobs:loop:one'")
        own.begin()
        hold(own, "admission")
        assert held_lock_problems("default", pause=lambda _: None) == []
        monkeypatch.setattr("pgjobs.features.standstill.held_locks.LONGEST_HOLD", 0)
        assert len(held_lock_problems("default")) == 1


def test_worker_names_the_session_that_keeps_it_from_admitting(caplog, monkeypatch):
    monkeypatch.setattr(chore, "LOOK_SECONDS", 0.1)
    with session() as own, running_worker():
        pid = hold(own, "admission")
        job = enqueue(noop.using(lock="door"))
        enqueue(noop)
        named = f"pid={pid} "
        wait_for(lambda: named in caplog.text, "the worker names the session")
        own.execute("SELECT pg_advisory_unlock_all()")
        wait_for_all("SUCCESSFUL")
    wait_for_status(job, "SUCCESSFUL")
    assert caplog.text.count(named) == 1


def test_lock_is_named_once_it_is_seen_twice_by_a_worker_that_leads(caplog):
    """A look before the worker rested does not count: it may be hours old."""
    chore, connection = HeldLockWarning(Admitting()), SimpleNamespace(execute=execute)
    with session() as own:
        pid = hold(own, "admission")
        chore.run(connection)
        chore.rest()
        chore.run(connection)
        assert caplog.text == ""
        chore.run(connection)
        assert f"pid={pid} " in caplog.text


def test_worker_that_cannot_declare_goes_on_and_names_who_is_in_the_way(
    caplog, monkeypatch
):
    monkeypatch.setattr(queue_database, "LONGEST_WAIT", 0.01)
    caplog.set_level(logging.WARNING, "pgjobs")
    with session() as own:
        pid = hold(own, "declarations")
        declaring.store_declared("default")
        assert f"pid={pid} " in caplog.text
    wait_for(lambda: not held_lock_problems("default"), "the session is gone")
    declaring.store_declared("default")
    assert TaskDefinition.objects.active().exists()
