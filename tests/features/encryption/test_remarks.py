"""`jobstatus` counts what stands in the clear; the kit knows plain arguments."""

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.utils import timezone

from pgjobs import current_job, enqueue, publish, task
from pgjobs.exceptions import InvalidStep, InvalidTask
from pgjobs.features.django_tasks.adapter import AdapterOptions
from pgjobs.features.encryption.remarks import in_the_clear
from pgjobs.features.encryption.start import ask_for_keys
from pgjobs.models import Job
from pgjobs.reports.remarks import Seen
from pgjobs.reports.secrets import MOST_VALUES
from pgjobs.testing import assert_enqueued, refute_enqueued
from tests.features.encryption import bodies
from tests.features.encryption.bodies import IBAN
from tests.features.encryption.keys import FIRST, keys
from tests.features.encryption.rows import whole_database
from tests.processes import drain

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("first_key"),
]


def said() -> list[str]:
    """Return what the status says of jobs in the clear."""
    seen = Seen("default", timezone.now(), [])
    return [remark.text for remark in in_the_clear(seen, None)]


def test_jobs_in_the_clear_are_counted_and_no_others():
    call_command("synctasks", verbosity=0)
    enqueue(bodies.pay, IBAN)
    enqueue(bodies.takes, "plain")
    Job.objects.create(task=bodies.pay_all.name)
    assert said() == []
    Job.objects.create(task=bodies.pay.name, kwargs={"iban": IBAN})
    Job.objects.create(task=bodies.pay_all.name, args=["one"])
    (text,) = said()
    assert text.startswith("Of the newest jobs, 2 have arguments that should be")
    call_command("reencryptjobs")
    assert said() == []


def test_job_that_has_one_of_its_two_arguments_in_the_clear_is_counted():
    call_command("synctasks", verbosity=0)
    job = enqueue(bodies.pay_all, amount=5, note=IBAN)
    names = job.keys["encrypted"]["names"]
    assert said() == []
    Job.objects.filter(pk=job.pk).update(kwargs={**job.kwargs, "later": IBAN})
    (text,) = said()
    assert text.startswith("Of the newest jobs, 1 has arguments that should be")
    call_command("reencryptjobs")
    job.refresh_from_db()
    assert job.keys["encrypted"]["names"] == [*names, "later"]
    assert said() == []


def test_job_by_an_alias_of_its_task_is_counted():
    name, encrypted = "tests.encryption.alias", {"encrypted": ("iban",)}
    task(name=name, aliases=["tests.encryption.former"], **encrypted)(renamed)
    call_command("synctasks", verbosity=0)
    Job.objects.create(task="tests.encryption.former", kwargs={"iban": IBAN})
    assert len(said()) == 1
    call_command("reencryptjobs")
    assert said() == []


def renamed(iban: str): ...


def test_kit_compares_plain_arguments():
    enqueue(bodies.pay, IBAN, amount="2.50")
    assert_enqueued(bodies.pay, iban=IBAN, amount="2.50")
    refute_enqueued(bodies.pay, iban="other")


def test_worker_that_starts_says_that_keys_cannot_be_had(caplog):
    with keys("none"):
        ask_for_keys("default")
    assert "Keys cannot be had" in caplog.text
    assert "none" not in caplog.text
    caplog.clear()
    with keys(FIRST):
        ask_for_keys("default")
    assert caplog.text == ""


def test_task_of_django_tasks_is_refused():
    with pytest.raises((InvalidTask, ImproperlyConfigured), match=r"of django\.tasks"):
        AdapterOptions(encrypted=True).check(bodies.pay.function)


@pytest.mark.parametrize(
    "call",
    [
        lambda job, iban: job.step(f"pay {iban}", lambda: 1),
        lambda job, iban: job.wait_for(iban, str),
        lambda job, iban: current_job().wait_for_event("order.paid", name=iban),
        lambda job, iban: job.wait_for_event("order.paid", aggregate_id=iban),
        lambda job, iban: publish("order.paid", aggregate_id=iban),
        lambda job, iban: publish("order.paid", correlation_id=f"of {iban}"),
    ],
)
def test_name_or_id_that_would_show_the_value_is_refused(call, monkeypatch):
    monkeypatch.setattr(bodies, "got", [])
    monkeypatch.setattr(bodies, "body", call)
    job = enqueue(bodies.awaits, IBAN)
    drain()
    job.refresh_from_db()
    assert job.status == "FAILED"
    assert "has the value of an encrypted argument" in job.reason
    assert IBAN not in whole_database()


def test_name_is_taken_beside_more_values_than_a_text_is_searched_for(monkeypatch):
    many = [f"value {number}" for number in range(MOST_VALUES + 1)]

    def call(job, iban):
        job.step("first", lambda: many)
        job.step("second", lambda: None)
        with pytest.raises(InvalidStep, match="The name of a step"):
            job.step(f"for {many[0]}", lambda: None)

    monkeypatch.setattr(bodies, "got", [])
    monkeypatch.setattr(bodies, "body", call)
    job = enqueue(bodies.pay, IBAN)
    drain()
    job.refresh_from_db()
    assert (job.status, job.reason) == ("SUCCESSFUL", "")
