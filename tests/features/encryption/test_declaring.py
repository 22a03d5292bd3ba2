"""What `encrypted` and `keyed_hash` take, and what they refuse."""

import pytest

from pgjobs import Dependency, same, schedule, subscribe, task
from pgjobs.exceptions import EncryptionError, InvalidArguments, InvalidTask
from tests.features.encryption import bodies
from tests.features.encryption.keys import FIRST, keys


def pay(iban: str, amount: int = 1):
    pass


def pay_anything(*ibans: str, **rest: str):
    pass


def lock_of(iban, amount):
    return iban


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"encrypted": "iban"}, "encrypted must be names"),
        ({"encrypted": ()}, "encrypted must be names"),
        ({"encrypted": ("bic",)}, "'bic' is no parameter of pay"),
        ({"encrypted": True, "keyed_hash": "yes"}, "keyed_hash must be True or False"),
        ({"keyed_hash": True}, "keyed_hash needs encrypted"),
        ({"encrypted": ("iban",), "lock": "iban {iban}"}, "lock is made of .*'iban'"),
        ({"encrypted": ("iban",), "lock": lock_of}, "lock is made of what a function"),
        ({"encrypted": ("iban",), "unique": True}, "unique is made of .*'iban'"),
        ({"encrypted": ("iban",), "unique": ("iban",)}, "unique is made of .*'iban'"),
        ({"encrypted": True, "unique_key": "{iban}"}, "unique_key is made of"),
        (
            {"encrypted": True, "max_running": 1, "limit_key": "{iban}"},
            "limit_key is made of",
        ),
        (
            {"encrypted": True, "rate": "1/minute", "rate_key": "{iban}"},
            "rate_key is made of",
        ),
        ({"encrypted": True, "sensitive": ("!iban",)}, "sensitive says '!iban'"),
        ({"encrypted": ("amount",), "write_all": ("amount",)}, "write_all cannot name"),
        (
            {"encrypted": True, "dependencies": [Dependency("other", iban=same)]},
            "cannot be the same in 'iban'",
        ),
        (
            {"encrypted": True, "dependencies": [Dependency("other", n=same("iban"))]},
            "cannot be the same in 'iban'",
        ),
    ],
)
def test_option_that_would_show_a_value_is_refused(options, expected):
    with pytest.raises(InvalidTask, match=expected):
        task(name="tests.encryption.refused", **options)(pay)


def test_key_of_other_arguments_is_taken():
    declared = task(
        name="tests.encryption.other", encrypted=("iban",), unique=("amount",)
    )(pay)
    with keys(FIRST, hash_key=None):
        assert "hmac" not in declared.bind("iban", 5).new_job.unique_key


def test_key_given_to_one_job_is_refused_too():
    with pytest.raises(InvalidTask, match="lock is made of"):
        bodies.pay.using(lock="{iban}")
    bodies.keyed.using(lock="other {iban}")


def test_it_belongs_to_the_task_and_not_to_a_job():
    with pytest.raises(InvalidTask, match="@task"):
        bodies.takes.using(encrypted=True)


def test_subscriber_is_refused():
    with pytest.raises(
        InvalidTask, match="cannot be encrypted and subscribe"
    ) as caught:
        subscribe("order.paid")(bodies.pay)
    assert "the event's payload stands in the clear" in str(caught.value)
    assert "look up by an id what is secret, and enqueue this task" in str(caught.value)


def test_schedule_with_an_encrypted_argument_is_refused():
    with pytest.raises(InvalidTask, match="iban is encrypted"):
        schedule(every=60, arguments={"iban": "x"})(bodies.pay)


def test_what_is_encrypted_is_sensitive_too():
    assert set(bodies.pay.options.sensitive) == {"iban", "return"}
    assert "amount" in bodies.pay_all.options.sensitive


def test_others_of_keywords_are_encrypted_by_the_name_that_collects_them():
    declared = task(name="tests.encryption.any", encrypted=("rest",))(pay_anything)
    with keys(FIRST):
        job = declared.bind("plain", note="secret").new_job
    assert job.args == '["plain"]'
    assert "secret" not in job.kwargs
    assert job.keys["encrypted"]["names"] == ["note"]


def test_fault_of_an_encrypted_argument_names_the_parameter_and_not_the_value():
    with keys(FIRST), pytest.raises(InvalidArguments) as caught:
        bodies.pay.bind(["DE89 secret"], amount="none")
    assert "iban: does not fit its type hint" in str(caught.value)
    assert "DE89" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("call", ["bind", "enqueue"])
def test_without_a_key_nothing_is_enqueued(call):
    # No access to a database: it is refused before.
    with keys(), pytest.raises(EncryptionError, match="has no key"):
        getattr(bodies.pay, call)("DE89")


def test_without_a_hash_key_nothing_is_enqueued():
    with keys(FIRST, hash_key=None), pytest.raises(EncryptionError, match="HASH_KEY"):
        bodies.keyed.bind("DE89")
