"""A worker without the key, and values that do not open."""

import pytest
from django.conf import settings as django_settings
from django.test import override_settings

from pgjobs import enqueue
from pgjobs.models import Attempt, Job, Step
from tests.features.encryption import bodies
from tests.features.encryption.bodies import IBAN
from tests.features.encryption.keys import FIRST, SECOND, id_of, keys
from tests.features.encryption.rows import whole_database
from tests.processes import drain

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job(monkeypatch) -> Job:
    monkeypatch.setattr(bodies, "got", [])
    with keys(FIRST):
        return enqueue(bodies.pay, IBAN)


def made_due(job: Job) -> None:
    assert job.run_now()


def test_worker_without_the_key_puts_the_job_back_and_one_with_it_runs_it(job):
    with keys(SECOND):
        drain()
    job.refresh_from_db()
    assert (job.status, job.failures) == ("SCHEDULED", 0)
    assert id_of(FIRST) in job.reason
    with keys(SECOND, FIRST):
        made_due(job)
        drain()
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"
    assert bodies.got[0][0] == IBAN


def test_job_fails_with_the_id_of_the_key_once_the_grace_has_passed(job):
    with keys(SECOND):
        drain()
        made_due(job)
        none = {**django_settings.PGJOBS, "UNKNOWN_TASK_GRACE": 0}
        with override_settings(PGJOBS=none):
            drain()
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("FAILED", 2)
    assert id_of(FIRST) in job.reason
    assert IBAN not in whole_database()


def test_worker_without_any_key_puts_back_a_plain_job_of_an_encrypted_task():
    job = Job.objects.create(task="tests.encryption.pay", kwargs={"iban": IBAN})
    with keys():
        drain()
    job.refresh_from_db()
    assert job.status == "SCHEDULED"
    assert "has no key" in job.reason


def test_value_of_another_job_fails_it_at_once(job):
    with keys(FIRST):
        other = enqueue(bodies.pay, "other")
        Job.objects.filter(pk=job.pk).update(kwargs=other.kwargs)
        drain()
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("FAILED", 1)
    assert "does not open" in job.reason
    assert [iban for iban, _ in bodies.got] == ["other"]


def test_value_of_another_parameter_fails_the_job_at_once():
    with keys(FIRST):
        job = enqueue(bodies.pay_all, amount=1, one="1", two="2")
        swapped = {**job.kwargs, "one": job.kwargs["two"], "two": job.kwargs["one"]}
        Job.objects.filter(pk=job.pk).update(kwargs=swapped)
        drain()
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("FAILED", 1)
    attempt = Attempt.objects.get(job=job)
    assert attempt.exception_class == "pgjobs.exceptions.EncryptionError"


def test_plain_value_in_place_of_an_encrypted_one_is_not_taken(job):
    Job.objects.filter(pk=job.pk).update(kwargs={**job.kwargs, "iban": "plain"})
    with keys(FIRST):
        drain()
    job.refresh_from_db()
    assert job.status == "FAILED"
    assert bodies.got == []


def asks(job, iban):
    return [iban, job.wait_for("to", str)]


@pytest.fixture
def answered(job, monkeypatch) -> Job:
    """Return a job whose answer needs a key that its worker lacks."""
    monkeypatch.setattr(bodies, "body", asks)
    with keys(FIRST):
        drain()
    with keys(SECOND, FIRST):
        assert job.answer("to", "secret answer")
    with keys(FIRST):
        drain()
    job.refresh_from_db()
    return job


def test_worker_without_the_key_of_an_answer_puts_the_job_back(answered):
    assert (answered.status, answered.failures) == ("SCHEDULED", 0)
    assert id_of(SECOND) in answered.reason
    with keys(SECOND, FIRST):
        made_due(answered)
        drain()
        assert answered.wait(timeout=5) == [IBAN, "secret answer"]
    assert "secret answer" not in whole_database()


def test_job_whose_answer_no_worker_opens_fails_once_the_grace_has_passed(answered):
    none = {**django_settings.PGJOBS, "UNKNOWN_TASK_GRACE": 0}
    with keys(FIRST), override_settings(PGJOBS={**none, "ENCRYPTION_KEYS": [FIRST]}):
        made_due(answered)
        drain()
    answered.refresh_from_db()
    assert (answered.status, answered.failures) == ("FAILED", 0)
    assert id_of(SECOND) in answered.reason


def test_step_of_another_place_fails_the_job_at_once(job, monkeypatch):
    def body(job, iban):
        job.step("one", lambda: "the first")
        job.step("two", lambda: "the second")
        steps = Step.objects.filter(job=job.id)
        steps.filter(name="one").update(return_value=steps.get(name="two").return_value)
        raise ValueError

    monkeypatch.setattr(bodies, "body", body)
    Job.objects.filter(pk=job.pk).update(max_attempts=5)
    with keys(FIRST):
        drain()
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("FAILED", 2)
    assert "does not open" in job.reason


def test_worker_without_any_key_does_not_begin_a_job_that_is_marked():
    job = Job.objects.create(task="tests.encryption.pay", kwargs={"iban": IBAN})
    bare = {"by": "random", "names": []}
    Job.objects.filter(pk=job.pk).update(keys={"encrypted": bare})
    with keys():
        drain()
    job.refresh_from_db()
    assert job.status == "SCHEDULED"
    assert "has no key" in job.reason


@pytest.mark.parametrize(
    "mark",
    [
        *(5, [], {}, {"by": 5}, {"by": "x", "names": 5}, {"by": "x"}),
        *({"by": "x", "names": [{}]}, {"by": "x", "names": {"iban": 1}}),
        {"by": "x", "rest": True},
    ],
)
def test_mark_that_cannot_be_read_fails_that_job_alone(job, mark):
    Job.objects.filter(pk=job.pk).update(keys={**job.keys, "encrypted": mark})
    with keys(FIRST):
        enqueue(bodies.pay, "other")
        drain()
    job.refresh_from_db()
    assert job.status == "FAILED"
    assert [iban for iban, _ in bodies.got] == ["other"]
