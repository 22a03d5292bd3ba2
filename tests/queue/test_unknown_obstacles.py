"""A worker leaves a WAITING job alone whose `waiting_for` it does not know."""

import json
from io import StringIO

import pytest
from django.core.management import call_command

from pgjobs.models import Job, Predecessor
from pgjobs.queue import admitting
from pgjobs.reports.reasons import reasons
from tests import tasks
from tests.actors import Hand, admit, execute, running_job, stored_statuses
from tests.processes import drain, shared_queue

pytestmark = shared_queue

MUTEX = {"lock": "door", "is_ordered": False}
KEYS = {
    "none": None,
    "lock": {"lock": "door"},
    "mutex": MUTEX,
    "limit": {"limit_key": "mail", "max_running": 1},
    "rate": {"rate_key": "sms", "rate_interval": 0.001, "rate_burst": 1},
}


def insert_waiting(keys: dict | None = None, number: int = 1) -> list[Job]:
    """Insert jobs as a later release would, whose kind of obstacle is "weather"."""
    rows = execute(
        "INSERT INTO pgjobs_job (task, keys, status, waiting_for)"
        " SELECT 'tests.noop', %(keys)s::jsonb, 'WAITING', 'weather'"
        " FROM generate_series(1, %(number)s) RETURNING id",
        {"keys": keys and json.dumps(keys), "number": number},
    )
    return [Job.objects.get(pk=id) for (id,) in rows]


@pytest.fixture
def served():
    """Let all queues have a worker that lives: without one no job is admitted."""
    return Hand("living")


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_worker_and_its_sweeps_leave_the_job_alone(served, keys):
    (job,) = insert_waiting(keys)
    for _ in range(3):
        assert admit() == 0
    assert drain().finished == 0
    job.refresh_from_db()
    assert (job.status, job.waiting_for, job.line) == ("WAITING", "weather", "unknown")


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_job_runs_once_a_statement_makes_it_ready(served, keys):
    (job,) = insert_waiting(keys)
    admit()
    execute("UPDATE pgjobs_job SET status = 'READY', waiting_for = NULL")
    assert drain().finished == 1
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"


def test_end_of_its_predecessor_does_not_admit_the_job(served):
    first = tasks.noop.enqueue()
    (job,) = insert_waiting({"after": [first.pk]})
    assert drain().finished == 1
    admit()
    job.refresh_from_db()
    assert (job.status, job.waiting_for) == ("WAITING", "weather")
    assert not Predecessor.objects.filter(is_open=True).exists()


def test_job_that_begins_to_wait_while_it_runs_gives_its_keys_back(served):
    task = tasks.noop.using(lock="door", lock_mode="mutex")
    running = running_job(task)
    task.enqueue()
    execute(
        "UPDATE pgjobs_job SET status = 'WAITING', waiting_for = 'weather',"
        f" worker_id = NULL WHERE id = {running.pk}"
    )
    assert admit() == 1
    assert stored_statuses() == ["WAITING", "READY"]


def test_many_such_jobs_keep_no_other_from_being_admitted(served):
    insert_waiting(MUTEX, number=2 * admitting.MOST_ADMITTED)
    tasks.noop.using(lock="gate").enqueue()
    for _ in range(4):
        admission = admitting.admit(execute)
    assert Job.objects.ready().count() == 1
    assert not (admission.has_more or admission.is_blocked)


def test_drain_says_that_the_job_is_left():
    insert_waiting()
    out = StringIO()
    call_command("runjobs", "--drain", stdout=out)
    assert out.getvalue().splitlines()[-1] == "Left: 1 waiting for weather."


def test_explanation_names_what_the_job_waits_for(served):
    (job,) = insert_waiting()
    admit()
    why = reasons("default", [job])[job.pk].text
    assert why == "waits for something that this release does not know: weather"
