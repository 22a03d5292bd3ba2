"""Encrypted tasks that wait: answers, other jobs, and lives that go on."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import NotSupportedError, connection

from pgjobs import Answer, enqueue, publish
from pgjobs.models import AuditEntry, Event, Job, Step
from tests.features.encryption import bodies
from tests.features.encryption.bodies import IBAN
from tests.features.encryption.keys import FIRST, SECOND, id_of, keys
from tests.features.encryption.rows import whole_database
from tests.processes import drain
from tests.support.declared import store_definitions
from tests.support.proposed_tasks import note_what_another_returned

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("first_key"),
]


@pytest.fixture(autouse=True)
def nothing_got(monkeypatch):
    monkeypatch.setattr(bodies, "got", [])


def runs(monkeypatch, body):
    monkeypatch.setattr(bodies, "body", body)
    job = enqueue(bodies.pay, "first")
    drain()
    return job


def test_answer_is_encrypted_and_arrives_as_itself(monkeypatch):
    job = runs(monkeypatch, lambda job, iban: {"got": job.wait_for("to", str)})
    assert job.answer("to", IBAN)
    assert IBAN not in whole_database()
    drain()
    assert job.wait(timeout=5) == {"got": IBAN}
    assert IBAN not in whole_database()


def test_answer_by_a_label_arrives_as_itself(monkeypatch):
    ways = {"yes": Answer(dict[str, str]), "no": Answer(str)}
    job = runs(monkeypatch, lambda job, iban: job.wait_for_first(ways))
    assert job.answer("yes", {"iban": IBAN})
    drain()
    assert job.wait(timeout=5) == ["yes", {"iban": IBAN}]
    assert IBAN not in whole_database()


def test_answer_that_does_not_fit_is_dropped_and_not_told(monkeypatch):
    job = runs(monkeypatch, lambda job, iban: job.wait_for("to", int))
    assert job.answer("to", IBAN)
    drain()
    assert job.answer("to", 5)
    drain()
    assert job.wait(timeout=5) == 5
    assert AuditEntry.objects.filter(act="answer").count() == 1
    assert IBAN not in whole_database()


def test_answer_before_the_task_asks_is_encrypted(monkeypatch):
    monkeypatch.setattr(bodies, "body", lambda job, iban: job.wait_for("to", str))
    job = enqueue(bodies.pay, "first")
    assert job.answer("to", IBAN)
    assert IBAN not in whole_database()
    drain()
    assert job.wait(timeout=5) == IBAN


def test_sql_may_neither_enqueue_nor_answer(monkeypatch):
    job = runs(monkeypatch, lambda job, iban: job.wait_for("to", str))
    call_command("synctasks", verbosity=0)
    with connection.cursor() as cursor:
        with pytest.raises(NotSupportedError, match="arguments are encrypted"):
            cursor.execute(
                "SELECT pgjobs_enqueue('tests.encryption.pay', '{\"iban\": \"x\"}')"
            )
        with pytest.raises(NotSupportedError, match="its answers are encrypted"):
            cursor.execute("SELECT pgjobs_answer(%s, 'to', '\"x\"')", [job.pk])


def test_step_that_is_marked_by_hand_is_encrypted(monkeypatch):
    job = runs(monkeypatch, lambda job, iban: job.wait_for("to", str))
    assert job.mark_step("to", IBAN)
    assert IBAN not in whole_database()
    drain()
    assert job.wait(timeout=5) == IBAN


def test_result_that_an_operator_gives_is_encrypted(monkeypatch):
    job = runs(monkeypatch, lambda job, iban: job.wait_for("to", str))
    plain = enqueue(bodies.takes.using(queue_name="elsewhere"), "plain")
    both = Job.objects.filter(pk__in=[job.pk, plain.pk])
    assert both.succeed({"iban": IBAN}).changed == 2
    assert job.wait(timeout=5) == plain.wait(timeout=5) == {"iban": IBAN}
    plain.delete()
    assert IBAN not in whole_database()


def test_job_that_goes_on_takes_its_encryption_along(monkeypatch):
    def body(job, iban):
        if iban == "first":
            job.continue_as(IBAN)
        return [iban, job.wait_for("to", str)]

    job = runs(monkeypatch, body)
    assert bodies.got[-1][0] == IBAN
    assert IBAN not in whole_database()
    assert job.answer("to", "x")
    drain()
    assert job.wait(timeout=5) == [IBAN, "x"]
    assert IBAN not in whole_database()


def test_job_that_waits_for_an_encrypted_one_gets_its_result(monkeypatch):
    def body(job, iban):
        if iban == "waits":
            other = job.step("enqueue", lambda: enqueue(bodies.pay, IBAN).pk)
            (end,) = job.wait_for_jobs("others", [other])
            return end.value
        return {"iban": iban}

    monkeypatch.setattr(bodies, "body", body)
    job = enqueue(bodies.takes, "waits")
    drain()
    assert job.wait(timeout=5) == {"iban": IBAN}


def test_step_of_an_event_has_its_id_and_nothing_else_of_it(monkeypatch):
    def body(job, iban):
        _, first = job.wait_for_first({"paid": "order.paid"}, name="first")
        second = job.wait_for_event("order.paid")
        if job.attempt == 1:
            raise ValueError
        return [iban, first.payload, second.payload]

    monkeypatch.setattr(bodies, "body", body)
    store_definitions()
    job = enqueue(bodies.awaits, IBAN)
    drain()
    ids = []
    for secret in ("payload-7391", "payload-7392"):
        ids.append(publish("order.paid", {"of": secret}).pk)
        drain()
    assert job.wait(timeout=5) == [
        IBAN,
        {"of": "payload-7391"},
        {"of": "payload-7392"},
    ]
    steps = dict(Step.objects.filter(job=job).values_list("name", "return_value"))
    assert steps == {"first": {"label": "paid", "value": ids[0]}, "order.paid": ids[1]}
    Event.objects.update(payload={})  # the row of the publisher
    assert "payload-739" not in whole_database()
    assert IBAN not in whole_database()
    output = StringIO()
    call_command("reencryptjobs", "--dry-run", stdout=output)
    assert output.getvalue().startswith("Would encrypt 0 rows anew, with 0 values")


def test_result_of_a_plain_job_is_encrypted_once_an_encrypted_one_waited_for_it(
    monkeypatch,
):
    seen = []

    def body(job, iban):
        if iban != "waits":
            return iban and {"of": iban}
        # One has returned nothing.
        others = [enqueue(bodies.takes, "a plain secret"), enqueue(bodies.takes, "")]
        ids = job.step("enqueue", lambda: [each.pk for each in others])
        ids.append(job.step("too", lambda: enqueue(bodies.pay, IBAN).pk))
        seen.append([end.value for end in job.wait_for_jobs("others", ids)])
        if len(seen) == 1:
            raise ValueError
        return seen[-1]

    monkeypatch.setattr(bodies, "body", body)
    job = enqueue(bodies.pay, "waits")
    drain()
    ends = [{"of": "a plain secret"}, "", {"of": IBAN}]
    assert job.wait(timeout=5) == ends
    assert seen == [ends, ends]
    Job.objects.filter(task=bodies.takes.name).delete()
    assert "a plain secret" not in whole_database()
    with keys(SECOND, FIRST):
        call_command("reencryptjobs", stdout=StringIO())
    assert f"{id_of(FIRST)}:" not in whole_database()
    assert job.retry(keep_steps=True)
    with keys(SECOND):
        drain()
        assert job.wait(timeout=5) == ends


def test_metadata_with_an_encrypted_result_is_refused(monkeypatch):
    other = enqueue(bodies.apay, IBAN)
    result = note_what_another_returned.enqueue(other.pk)
    drain()
    result.refresh()
    assert result.status == "FAILED"
    assert "The metadata has the value of an encrypted" in result.errors[0].traceback
    assert IBAN not in whole_database()


def test_kept_steps_open_in_the_next_life(monkeypatch):
    seen = []

    def body(job, iban):
        seen.append(job.step("look", lambda: f"{IBAN}{len(seen)}"))
        raise ValueError

    job = runs(monkeypatch, body)
    assert job.retry(keep_steps=True)
    drain()
    assert set(seen) == {f"{IBAN}0"}


def test_replaced_arguments_have_a_mark_of_their_own(monkeypatch):
    job = enqueue(bodies.keyed.using(run_after=None), IBAN)
    again = enqueue(bodies.keyed.using(on_conflict="replace"), IBAN)
    assert again.pk == job.pk
    assert again.keys["encrypted"]["by"] != job.keys["encrypted"]["by"]
    drain()
    assert bodies.got == [IBAN]
