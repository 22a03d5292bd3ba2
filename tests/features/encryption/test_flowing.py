"""A task that is not encrypted gets what an encrypted one has returned."""

import json
from dataclasses import dataclass

import pytest

from pgjobs import Chunk, chain, enqueue, result, task
from pgjobs.features.definitions.definitions import declared, sync
from pgjobs.models import Job
from tests.features.desk.test_desk import link_to_run_again
from tests.features.encryption import bodies
from tests.features.encryption.bodies import IBAN
from tests.features.encryption.keys import FIRST, keys
from tests.features.encryption.rows import whole_database
from tests.operators import ALL_PERMISSIONS, operator, page_of, text_of, url_of
from tests.processes import drain

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("first_key"),
]
CIPHER = "pgjobs_encrypted"
OTHER_IBAN = "DE02120300000000202051"


@task(name="tests.encryption.flowing_atomic", atomic=True)
def takes_atomic(iban: str) -> str:
    return f"of {iban}"


@task(name="tests.encryption.flowing_two")
def takes_two(iban: str, amount: int = 1) -> str:
    return f"{amount} to {iban}"


@task(name="tests.encryption.flowing_apart", isolated=True, max_attempts=1)
def takes_apart(iban: str) -> str:
    return f"of {iban}"


@dataclass
class Given:
    iban: str


@task(name="tests.encryption.flowing_many", chunk=10)
def takes_many(chunk: Chunk[Given]) -> list[str]:
    for call in chunk:
        call.job.log(f"for {call.args.iban}")
    return [f"of {call.args.iban}" for call in chunk]


got = []


@task(name="tests.encryption.anything")
def anything(*ibans: str, amount: int, **rest: str) -> None:
    got.append((ibans, rest))


def body(job, iban):
    job.step("look", lambda: {"of": iban})
    return iban


@pytest.fixture(autouse=True)
def bodies_return(monkeypatch):
    children = json.dumps({"ENCRYPTION_KEYS": [FIRST]})
    monkeypatch.setenv("PGJOBS_TEST_SETTINGS", children)
    monkeypatch.setattr(bodies, "got", [])
    got.clear()
    monkeypatch.setattr(bodies, "body", body)


def flowing(after=bodies.takes) -> Job:
    """Return the job that has got an encrypted result, once it has ended."""
    _, last = enqueue(chain(bodies.pay.bind(IBAN), after.bind(iban=result)))
    drain()
    last.refresh_from_db()
    assert last.status == "SUCCESSFUL", last.reason
    return last


@pytest.mark.parametrize("after", [takes_atomic, takes_apart, takes_many])
def test_result_is_encrypted_however_the_task_runs(after):
    assert flowing(after).wait(timeout=5) == f"of {IBAN}"
    assert IBAN not in whole_database()


def test_status_address_says_of_its_result_what_it_says_of_a_declared_one():
    job = flowing()
    client = operator("view_job")
    first = Job.objects.get(task=bodies.pay.name)
    told = [client.get(each.get_status_url()).json() for each in (first, job)]
    assert [each["return_value"] for each in told] == ["********"] * 2


def test_its_page_shows_no_cipher_text():
    job = flowing()
    page = text_of(operator("view_job", "view_job_arguments").get(page_of(job)))
    assert CIPHER not in page
    assert job.return_value[CIPHER] not in page


def test_run_again_keeps_it_encrypted():
    job = flowing()
    client = operator("view_job", "view_job_arguments", *ALL_PERMISSIONS[1:])
    client.post(url_of("run_again", job))
    other = Job.objects.latest("pk")
    assert other.pk != job.pk
    assert IBAN not in whole_database()
    drain()
    other.refresh_from_db()
    assert other.wait(timeout=5) == IBAN
    assert IBAN not in whole_database()


@pytest.mark.parametrize("entered", ["", OTHER_IBAN])
def test_run_again_with_changes_keeps_it_encrypted_and_asks_for_nothing(entered):
    job = flowing(takes_two)
    sync("default", declared())
    client = operator(*ALL_PERMISSIONS, "view_taskdefinition")
    url = link_to_run_again(text_of(client.get(page_of(job))))
    page = text_of(client.get(url))
    assert IBAN not in page
    assert job.kwargs["iban"] not in page
    assert "Leave the field empty to keep it" in page
    fields = {"argument-iban": entered, "argument-amount": "9"}
    assert client.post(url, fields).status_code == 302
    other = Job.objects.latest("pk")
    assert other.pk != job.pk
    # Of what is entered nobody knows that it is less secret.
    assert other.keys["encrypted"]["names"] == ["iban"]
    drain()
    assert other.wait(timeout=5) == f"9 to {entered or IBAN}"
    assert IBAN not in whole_database()
    assert OTHER_IBAN not in whole_database()


def test_run_again_with_changes_without_the_key_says_so_and_enqueues_nothing():
    job = flowing(takes_two)
    sync("default", declared())
    client = operator(*ALL_PERMISSIONS, "view_taskdefinition")
    url = link_to_run_again(text_of(client.get(page_of(job))))
    before = Job.objects.count()
    with keys():
        page = text_of(client.post(url, {"argument-iban": "", "argument-amount": "9"}))
    assert "has no key with the id" in page
    assert Job.objects.count() == before


def test_run_again_of_a_job_whose_option_went_stays_encrypted():
    job = enqueue(bodies.pay_all.using(queue_name="later"), IBAN, note=IBAN)
    Job.objects.filter(pk=job.pk).update(task=anything.name)
    client = operator("view_job", "view_job_arguments", *ALL_PERMISSIONS[1:])
    client.post(url_of("run_again", job))
    assert Job.objects.latest("pk").pk != job.pk
    assert IBAN not in whole_database()
    drain()
    assert got == [((IBAN,), {"note": IBAN})] * 2


def test_job_that_has_waited_for_an_encrypted_one_goes_on_encrypted(monkeypatch):
    def body(job, iban):
        if iban == "waits":
            other = job.step("enqueue", lambda: enqueue(bodies.pay, IBAN).pk)
            (end,) = job.wait_for_jobs("others", [other])
            job.continue_as(end.value)
        return iban

    monkeypatch.setattr(bodies, "body", body)
    job = enqueue(bodies.takes, "waits")
    drain()
    assert job.wait(timeout=5) == IBAN
    assert IBAN not in whole_database()
