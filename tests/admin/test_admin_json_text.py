"""JSON columns as text: what is seen, and what is not."""

import json

import pytest

from pgjobs.reports.json_text import MASK, readable
from pgjobs.reports.texts import block, excerpt, visible

SECRETS = [
    "password",
    "PASSWORD",
    "user_password_hash",
    "token",
    "accessToken",
    "client_secret",
    "api_key",
    "apiKey",
    "Authorization",
    "x-authorization",
]


def shown(value) -> str:
    return readable(json.dumps(value, ensure_ascii=False))


@pytest.mark.parametrize("key", SECRETS)
@pytest.mark.parametrize(
    "value",
    ["hunter2", 'hunt"er2', "\\", 2222, None, True, ["hunter2"], {"a": ["hunter2"]}],
    ids=str,
)
def test_secrets_are_masked_whatever_their_value(key, value):
    text = shown({"before": 1, key: value, "after": "seen"})
    assert json.loads(text) == {"before": 1, key: "********", "after": "seen"}


@pytest.mark.parametrize("key", SECRETS)
def test_secrets_are_masked_however_deep(key):
    text = shown({"a": [1, [{"b": {key: "hunter2"}}]], "c": [{key: "hunter2"}]})
    assert "hunter2" not in text
    assert text.count(MASK) == 2


def test_values_and_items_that_look_like_secret_keys_are_shown():
    value = {"a": "password", "b": ["token", "secret"], "c": ":"}
    assert json.loads(shown(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"a": {}, "b": []},
        [[], [[]]],
        1,
        "text",
        None,
        {"é": "naïve 🙂", "quote": 'a"b', "colon": "a: {b}, [c]"},
        {"numbers": [1, -1.5, 0]},
    ],
)
def test_other_json_keeps_its_meaning(value):
    assert json.loads(shown(value)) == value


def test_it_is_indented():
    assert shown({"a": [1, {}], "b": 2}) == (
        '{\n  "a": [\n    1,\n    {}\n  ],\n  "b": 2\n}'
    )


def test_numbers_keep_their_digits():
    number = "9" * 5000 + ".000100"
    assert readable(f'{{"x": {number}}}') == f'{{\n  "x": {number}\n}}'


def test_deep_nesting_is_shown():
    text = readable("[" * 50_000 + "]" * 50_000)
    assert text.count("[") == 50_000


@pytest.mark.parametrize("length", range(80))
def test_a_text_cut_anywhere_shows_no_secret(length):
    text = '{"a": "seen", "token": {"b": "one two", "c": [3]}, "key": "one \\" two"}'
    assert "one" not in readable(text[:length])
    assert "two" not in readable(text[:length])


def test_control_and_direction_characters_are_seen_and_have_no_effect():
    assert visible("a\x1b[31mb\u202ec\0d\te\nf\r\ng") == (
        "a\\u001b[31mb\\u202ec\\u0000d\te\nf\ng"
    )


def test_an_excerpt_is_one_short_line():
    assert excerpt("a\n b\t c", 10) == "a b c"
    assert excerpt("x" * 11, 10) == "x" * 9 + "…"
    assert len(excerpt("x" * 10_000_000, 10)) == 10


def test_a_block_says_that_it_is_cut():
    assert block("x" * 10, 10) == "x" * 10
    assert "Only the first 10 characters" in block("x" * 11, 10)


@pytest.mark.parametrize(
    ("key", "is_masked"),
    [
        ("iban", True),
        ("IBAN", True),
        ("customer_iban", True),
        ("customerIban", True),
        ("card_number", True),
        ("cardNumber", True),
        ("ibanez", False),
        ("card", False),
        ("password", True),
    ],
)
def test_words_of_the_project_are_masked_as_a_whole(key, is_masked, settings):
    settings.PGJOBS = {"SENSITIVE": ["iban", "cardNumber"]}
    assert ("DE12" not in readable(f'{{"{key}": "DE12"}}')) is is_masked
