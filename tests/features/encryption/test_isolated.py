"""An isolated task is opened in its own process, by the keys of the settings there."""

import json
import sys

import pytest

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
