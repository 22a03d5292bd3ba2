"""Databases that were restored into another cluster, and clocks that jump."""

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from pgjobs import publish
from pgjobs.sql import statement
from tests.actors import execute
from tests.database.test_owner import client_programs, dump
from tests.features.durable.bodies import done, enqueued, goes_on
from tests.processes import shared_queue
from tests.support.declared import store_definitions
from tests.support.server import PrivateServer

pytestmark = shared_queue
DAY = timedelta(days=1)
TAKEN = "SELECT pgjobs_event_for(job, 'order.paid', NULL) FROM pgjobs_job AS job"


def takes(job):
    return job.wait_for_event("order.paid").payload


@pytest.fixture
def other_cluster() -> Iterator[PrivateServer]:
    server = PrivateServer()
    yield server
    server.remove()


def move_to(server: PrivateServer, path: Path) -> psycopg.Connection:
    """Dump the tests' database, and load it into the other cluster."""
    dump(connection.settings_dict["NAME"], path, "-O", "-x")
    load = [client_programs() / "psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", path]
    subprocess.run([*load, f"{server.url}/postgres"], check=True)
    return server.connect()


@pytest.mark.slow
def test_wait_goes_on_in_another_cluster(other_cluster, tmp_path):
    store_definitions()
    publish("order.paid", {"number": 0})
    assert done(takes).status == done(takes).status == "WAITING"
    publish("order.paid", {"number": 1})
    with move_to(other_cluster, tmp_path / "dump") as moved:
        (first,) = moved.execute("SELECT max(id) FROM pgjobs_event").fetchone()
        assert moved.execute(TAKEN).fetchall() == [(first,), (first,)]
        moved.execute("DELETE FROM pgjobs_event; DELETE FROM pgjobs_waitnote")
        assert moved.execute(TAKEN).fetchall() == [(None,), (None,)]
        moved.execute("SELECT pgjobs_publish('order.paid', '{}')")
        (second,) = moved.execute("SELECT max(id) FROM pgjobs_event").fetchone()
        assert moved.execute(TAKEN).fetchall() == [(second,), (second,)]
        moved.execute("SELECT pgjobs_wake(100)")
        statuses = moved.execute("SELECT status FROM pgjobs_job").fetchall()
        assert statuses == [("READY",), ("READY",)]


# Clocks that jump


def jump(seconds: float) -> None:
    """Let the clock jump ahead: to it, all that is stored is so much older."""
    execute(statement("pass_time"), {"seconds": seconds})
    span = f"make_interval(secs => {seconds})"
    execute(f"UPDATE pgjobs_event SET published_at = published_at - {span}")


@pytest.mark.parametrize("seconds", [3_600, -3_600], ids=["forward", "back"])
def test_event_is_found_whatever_the_clock_does(seconds):
    store_definitions()
    job = done(lambda job: job.sleep("nap", DAY) or takes(job))
    jump(seconds)
    publish("order.paid", {"number": 1})
    jump(-2 * seconds)
    job.run_now()
    assert goes_on(job).return_value == {"number": 1}


def test_clock_that_goes_back_lets_a_wait_last_longer_and_loses_no_answer():
    job = done(lambda job: job.wait_for("question", bool, timeout=60))
    jump(-3_600)
    assert goes_on(job).status == "WAITING"
    assert job.answer("question", True)
    assert goes_on(job).return_value is True


def test_clock_that_goes_forward_ends_waits_and_sleeps_once():
    def body(job):
        job.sleep("nap", 60)
        return [job.wait_for("question", bool, timeout=60)]

    job = enqueued(body)
    assert goes_on(job).status == "SCHEDULED"
    jump(3_600)
    assert goes_on(job).status == "WAITING"
    jump(3_600)
    assert goes_on(job).return_value == [None]
