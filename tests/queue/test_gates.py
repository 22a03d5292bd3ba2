"""Gates: jobs wait while theirs is closed, and all of them pass once it is open."""

import json

import pytest

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Job, Queue
from pgjobs.queue import admitting
from tests import tasks
from tests.actors import Hand, admit, execute, stored_statuses
from tests.operators import ALL_PERMISSIONS, LIST, operator, page_of, text_of
from tests.processes import drain

pytestmark = pytest.mark.django_db(transaction=True)

INSERT = "INSERT INTO pgjobs_job (task, keys) VALUES ('tests.noop', %(keys)s::jsonb)"
gated = tasks.noop.using(gate="north")


def gate(name: str = "north") -> Queue:
    """Return what says that a gate is closed, while it is open."""
    return Queue.objects.create(name=f"gate:{name}")


@pytest.fixture(autouse=True)
def served():
    """Let all queues have a worker that lives: without one no job is admitted."""
    return Hand("living")


def test_jobs_wait_while_their_gate_is_closed_and_say_so():
    north, south = gate(), gate("south")
    north.pause()
    job = enqueue(gated)
    execute(INSERT, {"keys": json.dumps({"gate": "north"})})
    enqueue(gated.using(gate="south"))
    assert admit() == 1
    assert stored_statuses() == ["WAITING", "WAITING", "READY"]
    job.refresh_from_db()
    assert (job.waiting_for, job.line) == ("gate", "gate north")
    client = operator(*ALL_PERMISSIONS)
    for address in (LIST, page_of(job)):
        assert "waits until its gate is open" in text_of(client.get(address))
    assert "north" in text_of(client.get(page_of(job)))
    south.pause()
    north.resume()
    assert drain().finished == 3
    assert set(Job.objects.values_list("line", flat=True)) == {None}


def test_all_that_wait_pass_once_a_sweep_has_seen_that_the_gate_is_open():
    number = 2 * admitting.MOST_ADMITTED + 1
    north = gate()
    north.pause()
    enqueue_many([gated.bind() for _ in range(number)])
    assert admit() == 0
    north.resume()
    admitted = admitting.admit(execute, sweeps=True).admitted
    assert admitted + admit(sweeps=False) == number


def test_job_that_meets_its_gate_leaves_the_lock_to_the_next():
    task = tasks.noop.using(lock="door", lock_mode="mutex")
    north = gate()
    first = enqueue(task.using(priority=2))
    second = enqueue(task.using(priority=1, gate="north"))
    enqueue(task)
    admit()
    second.refresh_from_db()
    assert second.line == "mutex door"
    north.pause()
    first.cancel()
    assert admit(sweeps=False) == 1
    assert stored_statuses() == ["CANCELLED", "WAITING", "READY"]
    second.refresh_from_db()
    assert (second.waiting_for, second.line) == ("gate", "gate north")
