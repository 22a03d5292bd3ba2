"""Schedules of encrypted tasks: they store no value, and their jobs are encrypted."""

import pytest

from pgjobs.exceptions import EncryptionError
from pgjobs.models import Job, Schedule
from tests.features.encryption import bodies
from tests.features.encryption.bodies import IBAN
from tests.features.encryption.keys import keys
from tests.features.encryption.rows import whole_database
from tests.features.schedules.test_admin import ALL, FIELDS, LIST
from tests.features.schedules.test_schedules import fire_due, make_due
from tests.operators import operator, text_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("first_key"),
]


def leftover(name: str = "old") -> Schedule:
    """Return a schedule from before its task was encrypted."""
    return Schedule.objects.create(
        name=name,
        task=bodies.pay.name,
        kwargs={"iban": IBAN, "amount": "1"},
        every="01:00:00",
    )


def test_form_takes_no_value_of_an_encrypted_argument():
    given = {"argument-iban": IBAN, "argument-amount": "1"}
    fields = FIELDS | {"task": bodies.pay.name, **given}
    page = text_of(operator(*ALL).post(f"{LIST}add/", fields))
    assert "is encrypted, and a schedule would store it in the clear" in page
    assert not Schedule.objects.filter(name="nightly").exists()
    assert IBAN not in whole_database()


def test_job_of_a_schedule_that_has_a_value_is_encrypted():
    made = leftover()
    make_due(made)
    assert fire_due() == 1
    made.delete()
    assert Job.objects.get().keys["encrypted"]["names"] == ["iban"]
    assert IBAN not in whole_database()


def test_schedule_is_due_until_a_worker_with_the_key_fires_it():
    make_due(leftover())
    with keys(), pytest.raises(EncryptionError):
        fire_due()
    assert not Job.objects.exists()
    assert fire_due() == 1
