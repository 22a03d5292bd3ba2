"""An isolated task is opened in its own process, by the keys of the settings there."""

import json
import sys
import tempfile

import pytest
from django.core.management import call_command

from pgjobs import enqueue
from tests.features.encryption import bodies
from tests.features.encryption.bodies import IBAN
from tests.features.encryption.keys import FIRST
from tests.features.encryption.rows import whole_database
from tests.processes import drain

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("first_key"),
]


@pytest.fixture(autouse=True)
def key_of_children(monkeypatch):
    settings = json.dumps({"ENCRYPTION_KEYS": [FIRST]})
    monkeypatch.setenv("PGJOBS_TEST_SETTINGS", settings)


def test_child_opens_the_arguments_and_encrypts_the_result():
    job = enqueue(bodies.pay_apart, IBAN, False)
    drain()
    assert job.wait(timeout=5) == IBAN
    assert IBAN not in whole_database()


def test_failure_of_a_child_shows_nothing():
    job = enqueue(bodies.pay_apart, IBAN, True)
    drain()
    job.refresh_from_db()
    assert (job.status, job.reason) == ("FAILED", "ValueError: no ********")
    assert IBAN not in whole_database()


@pytest.mark.skipif(sys.platform != "linux", reason="It reads /proc.")
def test_child_has_no_value_and_its_parent_none_in_what_other_programs_see():
    job = enqueue(bodies.look_around, IBAN)
    drain()
    assert job.wait(timeout=5) == []


def test_no_argument_goes_to_a_file_on_its_way_to_a_child_and_back(monkeypatch):
    monkeypatch.setattr(bodies, "written", [])
    bodies.watch_from_now_on()
    jobs = [enqueue(bodies.watch_files, IBAN, "x" * 300_000) for _ in range(3)]
    drain(isolated=1)
    assert [job.wait(timeout=5) for job in jobs] == [[1], [2], [3]]
    assert bodies.written == []


def test_no_argument_of_any_other_job_goes_to_a_file(monkeypatch):
    def body(job, iban):
        job.log(f"to {iban}")
        job.step("look", lambda: iban)
        return [iban, job.wait_for("to", str)]

    monkeypatch.setattr(bodies, "got", [])
    monkeypatch.setattr(bodies, "body", body)
    monkeypatch.setattr(bodies, "written", [])
    bodies.watch_from_now_on()
    job = enqueue(bodies.pay, IBAN)
    drain()
    assert job.answer("to", IBAN)
    drain()
    assert job.wait(timeout=5) == [IBAN, IBAN]
    other = enqueue(bodies.apay, IBAN)
    drain()
    call_command("reencryptjobs", verbosity=0)
    assert other.wait(timeout=5) == {"iban": IBAN}
    assert bodies.written == []


def test_file_that_is_opened_to_write_is_seen(monkeypatch):
    monkeypatch.setattr(bodies, "written", [])
    bodies.watch_from_now_on()
    with tempfile.TemporaryFile():
        pass
    with tempfile.NamedTemporaryFile("w") as file:
        assert file.name in bodies.written
    assert len(bodies.written) >= 2
