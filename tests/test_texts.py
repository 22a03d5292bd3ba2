"""Texts: whatever a job says can be stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgjobs.base.texts import storable
from pgjobs.reports.durations import seconds_in_words
from tests.actors import execute

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (0, "0 ms"),
        (0.004, "4 ms"),
        (0.26, "0.3 s"),
        (9.96, "10.0 s"),
        (42, "42 s"),
        (60, "1 min"),
        (90, "90 s"),
        (3_600, "1 h"),
        (5_400, "90 min"),
        (86_400, "1 d"),
        (86_401, "24 h"),
    ],
)
def test_durations_are_said_in_one_unit(seconds, words):
    assert seconds_in_words(seconds) == words


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("plain", "plain"),
        ("", ""),
        ("naïve 🙂\n\t\x1b[1m \u202e", "naïve 🙂\n\t\x1b[1m \u202e"),
        ("a\0b", "a\ufffdb"),
        ("\ud800", "\ufffd"),
        ("\udfff", "\ufffd"),
        ("a\ud800b\udc00c", "a\ufffdb\ufffdc"),
        ("é\ud800", "é\ufffd"),
        ("\ud800\0", "\ufffd\ufffd"),
    ],
)
def test_what_postgresql_refuses_is_replaced(text, stored):
    assert storable(text, 1000) == stored


def test_text_over_the_limit_loses_its_middle():
    assert storable("x" * 10, 10) == "x" * 10
    text = storable("a" * 50 + "b" * 50 + "c" * 50, 100)
    assert text == "a" * 50 + "\n... 50 characters left out ...\n" + "c" * 50


def test_fifty_megabytes_are_no_burden():
    assert len(storable("\0" * 50_000_000, 1000)) < 1100


@given(st.text(st.characters()), st.integers(2, 50))
def test_any_text_can_be_stored_and_is_bounded(text, limit):
    stored = storable(text, limit)
    assert execute("SELECT %(text)s::text", {"text": stored}) == [(stored,)]
    assert len(stored) <= limit + 50
    if stored == text:
        assert storable(stored, limit) == stored
