"""A worker opens what was encrypted, and the table has nothing of it."""

import pytest
from django.db import connection

from pgjobs import chain, current_job, enqueue, enqueue_many, result
from pgjobs.exceptions import AlreadyEnqueued
from pgjobs.models import Job
from pgjobs.testing import perform
from tests.features.encryption import bodies
from tests.features.encryption.bodies import IBAN
from tests.features.encryption.rows import whole_database
from tests.processes import drain

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("first_key"),
]


@pytest.fixture(autouse=True)
def nothing_got(monkeypatch):
    monkeypatch.setattr(bodies, "got", [])
    monkeypatch.setattr(bodies, "body", lambda *arguments: None)


def test_encrypted_argument_arrives_as_itself_and_stands_in_no_table():
    job = enqueue(bodies.pay, IBAN, amount="2.50")
    assert IBAN not in str(job.kwargs)
    assert IBAN not in whole_database()
    drain()
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"
    assert [iban for iban, _ in bodies.got] == [IBAN]
    assert job.kwargs["amount"] == "2.50"
    assert IBAN not in whole_database()


def test_several_jobs_of_one_statement_open_each_for_itself():
    jobs = enqueue_many([bodies.pay.bind(f"{IBAN}{n}") for n in range(3)])
    drain()
    assert sorted(iban for iban, _ in bodies.got) == [f"{IBAN}{n}" for n in range(3)]
    assert len({job.keys["encrypted"]["by"] for job in jobs}) == 3


def test_result_is_encrypted_and_wait_returns_it_plain(monkeypatch):
    monkeypatch.setattr(bodies, "body", lambda job, iban: {"paid": iban})
    job = enqueue(bodies.pay, IBAN)
    drain()
    assert job.wait(timeout=5) == {"paid": IBAN}
    assert IBAN not in whole_database()


def test_coroutine_and_atomic_task_encrypt_their_results():
    jobs = [enqueue(bodies.apay, IBAN), enqueue(bodies.pay_atomic, IBAN)]
    drain()
    assert [job.wait(timeout=5) for job in jobs] == [{"iban": IBAN}, IBAN]
    assert IBAN not in whole_database()


def test_all_arguments_are_encrypted_also_those_without_a_name():
    job = enqueue(bodies.pay_all, IBAN, "two", amount=5, note=IBAN)
    assert IBAN not in whole_database()
    drain()
    job.refresh_from_db()
    assert bodies.got == [((IBAN, "two"), 5, {"note": IBAN})], job.reason


def test_step_is_encrypted_and_a_later_attempt_gets_its_result(monkeypatch):
    seen = []

    def body(job, iban):
        seen.append(job.step("look", lambda: {"iban": iban}))
        if job.attempt == 1:
            raise ValueError(f"no {iban}")

    monkeypatch.setattr(bodies, "body", body)
    job = enqueue(bodies.pay, IBAN)
    drain()
    job.refresh_from_db()
    assert seen == [{"iban": IBAN}] * 2
    assert job.status == "SUCCESSFUL"
    assert IBAN not in whole_database()


def test_reason_traceback_and_log_show_nothing(monkeypatch):
    def body(job, iban):
        job.log(f"has {iban}")
        job.progress(1, 2, f"with {iban}")
        raise ValueError(f"no {iban!r}")

    monkeypatch.setattr(bodies, "body", body)
    job = enqueue(bodies.pay, IBAN)
    drain()
    job.refresh_from_db()
    assert job.status == "FAILED"
    assert "ValueError" in job.reason
    assert IBAN not in whole_database()


def test_task_that_takes_an_encrypted_result_keeps_it_encrypted(monkeypatch):
    monkeypatch.setattr(bodies, "body", lambda job, iban: {"iban": iban})
    jobs = chain(bodies.pay.bind(IBAN), bodies.takes.bind(result["iban"]))
    _, last = enqueue(jobs)
    drain()
    last.refresh_from_db()
    assert last.status == "SUCCESSFUL", last.reason
    assert bodies.got[-1] == IBAN
    assert last.keys["encrypted"]["names"] == ["iban"]
    assert last.wait(timeout=5) == {"iban": IBAN}
    assert IBAN not in whole_database()


def test_plain_job_of_an_encrypted_task_runs_and_encrypts_its_result(monkeypatch):
    monkeypatch.setattr(bodies, "body", lambda job, iban: iban[::-1])
    job = Job.objects.create(task="tests.encryption.pay", kwargs={"iban": IBAN})
    drain()
    assert job.wait(timeout=5) == IBAN[::-1]
    assert IBAN[::-1] not in whole_database()


def test_keys_of_an_encrypted_argument_are_hashes():
    job = enqueue(bodies.keyed, IBAN)
    assert enqueue(bodies.keyed, IBAN).pk == job.pk
    assert enqueue(bodies.keyed, "other").pk != job.pk
    assert job.keys["lock"].startswith("hmac of iban:")
    with pytest.raises(AlreadyEnqueued, match="'hmac of iban:") as caught:
        enqueue(bodies.keyed.using(on_conflict="raise"), IBAN)
    assert IBAN not in str(caught.value)
    assert IBAN not in whole_database()
    drain()
    assert bodies.got == [IBAN, "other"]


def test_perform_opens_arguments_and_result(monkeypatch):
    monkeypatch.setattr(
        bodies, "body", lambda job, iban: current_job().step("look", lambda: iban)
    )
    done = perform(bodies.pay.bind(IBAN))
    assert (done.return_value, done.steps) == (IBAN, {"look": IBAN})


def test_nothing_waits_for_the_end_of_an_encrypted_job():
    # Or each end would let a worker look for what it has admitted.
    job = enqueue(bodies.pay, IBAN)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pgjobs_ends_for_others(keys) FROM pgjobs_job WHERE id = %s",
            [job.pk],
        )
        assert cursor.fetchone() == (False,)
