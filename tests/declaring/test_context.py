"""The running job, as its own code sees it."""

import json
from contextlib import contextmanager

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from pgjobs import current_job
from pgjobs.base.plain_json import shortened
from pgjobs.tasks.running_job import LONGEST_LINE, MOST_LINES, RunningJob, current

ENQUEUED_AT = timezone.now()


class Host:
    def __init__(self):
        self.reports = 0

    def reported(self, job: RunningJob) -> None:
        self.reports += 1


def running_job(**changes) -> RunningJob:
    values = {
        "id": 7,
        "task_name": "tests.noop",
        "queue_name": "default",
        "attempt": 2,
        "max_attempts": 3,
        "life": 1,
        "lease_token": 99,
        "enqueued_at": ENQUEUED_AT,
        "host": Host(),
    }
    return RunningJob(**values | changes)


@contextmanager
def inside(job: RunningJob):
    token = current.set(job)
    try:
        yield
    finally:
        current.reset(token)


def test_running_job_knows_itself():
    job = running_job()
    with inside(job):
        assert current_job() is job
    assert (job.id, job.attempt, job.max_attempts) == (7, 2, 3)
    assert (job.task_name, job.queue_name) == ("tests.noop", "default")
    assert job.enqueued_at == ENQUEUED_AT


def test_outside_of_a_job_there_is_none():
    with pytest.raises(RuntimeError, match="outside of a job"):
        current_job()


@pytest.mark.django_db
def test_key_is_the_same_for_all_attempts_of_one_life():
    assert running_job(attempt=1).key == running_job(attempt=2, lease_token=5).key
    keys = {running_job().key, running_job(life=2).key, running_job(id=8).key}
    assert len(keys) == 3


def test_of_several_reports_the_last_is_taken_once():
    job = running_job()
    job.progress(1, 10, "first")
    job.progress(2, 10, "second")
    assert job._host.reports == 2
    assert job.take_report() == {
        "id": 7,
        "lease_token": 99,
        "done": 2,
        "total": 10,
        "message": "second",
        "log": "",
    }
    assert job.take_report() is None


def test_lines_are_dated_and_kept_in_order():
    job = running_job()
    job.log("one")
    job.log(2)
    first, second = job.take_report()["log"].splitlines()
    assert first.endswith("+00:00 one")
    assert second.endswith("+00:00 2")
    assert job.take_report() is None


def test_log_that_is_never_stored_does_not_fill_the_memory():
    job = running_job()
    for number in range(2 * MOST_LINES):
        job.log(f"{number} " + "x" * 10 * LONGEST_LINE)
    lines = job.take_report()["log"]
    assert len(lines) < 2 * MOST_LINES * LONGEST_LINE
    assert f" {2 * MOST_LINES - 1} xxx" in lines
    assert f" {MOST_LINES - 1} xxx" not in lines


@pytest.mark.parametrize(
    "value",
    [-1, float("nan"), float("inf"), "5", None, True, 10**400, 10**5000],
    ids=shortened,
)
def test_value_that_is_no_amount_is_refused(value):
    with pytest.raises(ValueError, match="done must be a number of at least 0"):
        running_job().progress(value)
    if value is not None:
        with pytest.raises(ValueError, match="total must be a number of at least 0"):
            running_job().progress(1, value)


@given(st.text(st.characters()), st.floats(0, allow_nan=False, allow_infinity=False))
def test_every_report_can_be_stored(text, done):
    job = running_job()
    job.progress(done, message=text)
    job.log(text)
    stored = json.dumps(job.take_report())
    assert "\\u0000" not in stored
    json.loads(stored)["message"].encode()  # no lone surrogates
