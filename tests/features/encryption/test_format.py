"""The form of an encrypted value: what opens it, and what does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pgjobs.base.plain_json import dump, load
from pgjobs.exceptions import EncryptionError
from pgjobs.features.encryption.keyring import NoKey
from pgjobs.features.encryption.sealing import (
    Seal,
    argument,
    close_arguments,
    open_arguments,
    read,
    step,
)
from tests.features.encryption.keys import FIRST, OTHER, SECOND, id_of, keys

texts = some.text(some.characters(codec="utf-8", exclude_characters="\0"))
values = some.recursive(
    some.none() | some.booleans() | some.integers() | texts,
    lambda inner: some.lists(inner) | some.dictionaries(texts, inner),
    max_leaves=8,
)
named = some.dictionaries(texts, values, max_size=5)


@given(texts, texts)
def test_any_text_opens_at_its_own_place(place, text):
    with keys(FIRST):
        seal = Seal.new()
        assert seal.open(place, seal.close(place, text)) == text


@given(texts, texts, texts)
def test_no_text_opens_at_another_place_or_in_another_job(place, other, text):
    with keys(FIRST):
        seal = Seal.new()
        token = seal.close(place, text)
        with pytest.raises(EncryptionError, match="does not open"):
            Seal.new().open(place, token)
        if other != place:
            with pytest.raises(EncryptionError, match="does not open"):
                seal.open(other, token)


@given(texts, some.integers(0), some.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(text, position, change):
    from base64 import urlsafe_b64decode, urlsafe_b64encode

    with keys(FIRST):
        seal = Seal.new()
        id, _, encoded = seal.close("a", text).partition(":")
        changed = bytearray(urlsafe_b64decode(encoded))
        changed[position % len(changed)] ^= change
        with pytest.raises(EncryptionError, match="does not open"):
            seal.open("a", f"{id}:{urlsafe_b64encode(changed).decode()}")


@given(named, some.lists(values, max_size=3), some.sets(texts), some.booleans())
def test_arguments_come_back_whichever_are_encrypted(given, listed, names, rest):
    covered = names | set(list(given)[:2])
    with keys(FIRST):
        args, kwargs = dump(listed), dump(given)
        covers = covered.__contains__
        closed = close_arguments(args, kwargs, covers, rest, Seal.new())
        assert set(closed.mark["names"]) == covered & given.keys()
        assert open_arguments(closed.args, closed.kwargs, closed.mark) == (args, kwargs)


@given(values)
def test_whatever_stands_there_raises_no_other_error(value):
    with keys(FIRST), pytest.raises(EncryptionError):
        Seal("by").open("a", value)


@given(values, values)
def test_mark_that_sql_has_changed_raises_no_other_error(value, mark):
    with keys(FIRST):
        try:
            open_arguments("[]", dump({"a": value}), mark)
        except EncryptionError:
            pass
        else:
            assert mark is None or not mark.get("names")


def test_value_names_its_key_and_opens_by_it_behind_a_new_one():
    seal = Seal.new()
    with keys(FIRST):
        token = seal.close("a", "text")
    assert read(token)[0] == id_of(FIRST)
    with keys(SECOND, FIRST):
        assert seal.open("a", token) == "text"
        assert read(seal.close("a", "text"))[0] == id_of(SECOND)
    with keys(SECOND), pytest.raises(NoKey, match=id_of(FIRST)):
        seal.open("a", token)


def test_same_text_is_never_encrypted_to_the_same_value():
    with keys(FIRST):
        seal = Seal.new()
        assert len({seal.close("a", "text") for _ in range(100)}) == 100


def test_places_of_arguments_steps_and_results_differ():
    assert len({argument("result"), step("result"), "result", "rest"}) == 4


def test_encrypted_arguments_are_json_texts_of_the_same_names():
    with keys(OTHER):
        closed = close_arguments(
            "[]", '{"a":1,"b":"x"}', {"b"}.__contains__, True, Seal.new()
        )
    assert load(closed.kwargs).keys() == {"a", "b"}
    assert load(closed.kwargs)["a"] == 1
    assert closed.args == "[]"
    assert "rest" not in closed.mark
