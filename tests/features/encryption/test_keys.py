"""Keys: what the settings take, what `check` says, and a callable that is asked."""

import sys
import threading
from base64 import urlsafe_b64encode

import pytest
from django.conf import settings as django_settings
from django.test import override_settings

from pgjobs.exceptions import EncryptionError
from pgjobs.features.encryption import checks, keyring
from pgjobs.features.encryption.keyring import NoKey
from pgjobs.features.encryption.sealing import Seal
from tests.features.encryption import bodies
from tests.features.encryption.keys import FIRST, SECOND, id_of, keys

SHORT = urlsafe_b64encode(b"too short").decode()
found: list[str] = []
calls: list[None] = []


def of_service() -> list[str]:
    calls.append(None)
    if not found:
        raise OSError(f"cannot give {FIRST}")
    return found


PATH = f"{__name__}.of_service"


@pytest.fixture
def by_callable(monkeypatch):
    monkeypatch.setattr(keyring.Held, "ring", None)
    monkeypatch.setattr(f"{__name__}.found", [FIRST])
    monkeypatch.setattr(f"{__name__}.calls", [])
    changed = {"ENCRYPTION_KEYS": PATH}
    with override_settings(PGJOBS={**django_settings.PGJOBS, **changed}):
        yield


def ids() -> set[str]:
    return {message.id for message in checks.check_encryption()}


def messages() -> str:
    return "\n".join(str(message) for message in checks.check_encryption())


def test_check_is_content_with_keys():
    with keys(FIRST, SECOND):
        assert ids() == set()


def test_check_warns_of_a_missing_key_and_of_a_missing_package(monkeypatch):
    with keys(hash_key=None):
        assert ids() == {"pgjobs.W082", "pgjobs.W083"}
        monkeypatch.setattr(checks, "has_package", lambda: False)
        assert ids() == {"pgjobs.W081", "pgjobs.W082", "pgjobs.W083"}


@pytest.mark.parametrize("wrong", [SHORT, "no base64!", 5, None, FIRST[:-4]])
def test_check_reports_a_key_that_is_none_and_does_not_quote_it(wrong):
    with keys(FIRST, wrong, hash_key=wrong):
        assert "pgjobs.E080" in ids()
        assert "key 2" in messages()
        assert FIRST not in messages()
        if wrong:
            assert str(wrong) not in messages().replace("got 5", "")


def test_check_reports_a_key_that_stands_there_twice():
    with keys(FIRST, SECOND, FIRST):
        assert ids() == {"pgjobs.E080"}
        assert "key 3 stands there twice" in messages()


def test_check_reports_a_hash_key_that_is_one_of_the_others():
    with keys(FIRST, SECOND, hash_key=SECOND):
        assert ids() == {"pgjobs.E080"}
        assert "is one of ENCRYPTION_KEYS" in messages()
        assert SECOND not in messages()


def test_setting_that_is_no_list_is_not_quoted():
    with override_settings(PGJOBS={**django_settings.PGJOBS, "ENCRYPTION_KEYS": 5}):
        from pgjobs.conf import problems

        (problem,) = problems()
        assert "must be a list of keys" in problem.message


def test_callable_returns_the_keys_and_is_asked_once(by_callable):
    seal = Seal.new()
    assert seal.open("a", seal.close("a", "text")) == "text"
    assert len(calls) == 1


def test_callable_is_asked_again_for_an_unknown_key_once_a_minute(
    by_callable, monkeypatch
):
    seal = Seal.new()
    with keys(SECOND):
        token = seal.close("a", "text")
    keyring.keyring()
    with pytest.raises(NoKey, match=id_of(SECOND)):
        seal.open("a", token)
    asked = len(calls)
    found.append(SECOND)
    now = keyring.monotonic() + keyring.ASK_AGAIN
    monkeypatch.setattr(keyring, "monotonic", lambda: now)
    assert seal.open("a", token) == "text"
    assert len(calls) == asked + 1


def test_callable_that_fails_for_an_unknown_key_is_left_alone_for_a_minute(
    by_callable, monkeypatch
):
    seal = Seal.new()
    with keys(SECOND):
        token = seal.close("a", "text")
    keyring.keyring()
    asked = len(calls)
    found.clear()
    now = keyring.monotonic() + keyring.ASK_AGAIN
    monkeypatch.setattr(keyring, "monotonic", lambda: now)
    for _ in range(3):
        with pytest.raises(NoKey):
            seal.open("a", token)
    assert len(calls) == asked + 1


def test_threads_that_start_together_ask_the_callable_once(by_callable, monkeypatch):
    together = threading.Barrier(4, timeout=10)
    slow = threading.Event()

    def read(given):
        slow.wait(0.2)
        return keyring.keys_of(given)

    monkeypatch.setattr(keyring, "read_keys", read)

    def ask():
        together.wait()
        keyring.keyring()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_threads_that_wait_for_a_callable_that_fails_do_not_ask_it_in_turn(
    by_callable, monkeypatch
):
    together = threading.Barrier(4, timeout=10)
    slow = threading.Event()
    raised = []

    def read(given):
        calls.append(given)
        slow.wait(0.2)
        raise NoKey("the service is down")

    monkeypatch.setattr(keyring, "read_keys", read)

    def ask():
        together.wait()
        try:
            keyring.keyring()
        except NoKey as error:
            raised.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(calls), raised) == (1, ["the service is down"] * 4)
    with pytest.raises(NoKey):
        keyring.keyring()
    assert len(calls) == 2  # who comes later asks again


def test_callable_that_fails_says_so_without_its_own_words(by_callable):
    found.clear()
    with pytest.raises(NoKey, match=r"of_service\(\) raised OSError") as caught:
        bodies.pay.bind("iban")
    assert FIRST not in repr(caught.value)
    assert caught.value.__context__ is None


def test_without_the_package_nothing_is_encrypted_and_the_cure_is_named(monkeypatch):
    package = "cryptography.hazmat.primitives.ciphers.aead"
    monkeypatch.setitem(sys.modules, package, None)
    wanted = r"pip install 'django-pgjobs\[encryption\]'"
    with keys(SECOND), pytest.raises(NoKey, match=wanted):
        bodies.pay.bind("iban")


def test_key_in_use_that_is_none_raises_a_clear_error():
    with keys(SHORT), pytest.raises(EncryptionError, match="key 1 must be 32 random"):
        bodies.pay.bind("iban")
