"""One word, one meaning: words that were replaced do not come back as identifiers."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = ("pgjobs", "chaos", "benchmarks", "tests")
FROZEN = ROOT / "pgjobs/migrations"
# What is said now, by what was said before; docs/glossary.md explains the words.
REPLACED = {
    "fetch": "Look Looks first_look next_look deserves_look wants_to_look replace_look "
    "must_look looked look_past look_again add_look_arguments",
    "poll, listen": "Wakefulness wakefulness deaf settling was_looking",
    "claim order": "is_along_line bring_in_line is_out_of_line",
    "fetch rule": "claim_cursors ClaimCursors poll_schedule PollSchedule",
    "apply, audited": "take_note noting noting_row note_cut note_duration note_act",
    "last chance, candidate": "is_suspect met_suspect runs_suspect suspects",
    "slice, segment, branch, context": "Parts WorkerParts read_part prune_part",
    "rescan": "rested_at rewind complete_look complete_look_at complete_fetch_at",
    "without notify": "insert_quietly",
    "scan limit, extra, starved": "LONGEST_REACH REACH_GROWTH is_crowded SPARE",
    "prefetch": "AHEAD_SECONDS MOST_AHEAD claimed_ahead",
    "missing tables": "unprepared refuse_unprepared",
    "adapter": "AdoptedTask Adoptions adoptions AdoptedOptions",
    "crossing links": "TornTies refuse_ties moving_ties",
    "after a failover": "doubt_all credible doubt_ends_in",
    "observer, call_safely": "finishing",
}
OLD = {word: now for now, words in REPLACED.items() for word in words.split()}
IN_SQL = {"is_suspect", "met_suspect", "is_crowded", "is_spare", "touched", "noted"}
WORD = re.compile(r"[a-z_]+")


def identifiers(text: str) -> Iterator[str]:
    """Yield the names of a module: of variables, attributes, arguments, imports."""
    for node in ast.walk(ast.parse(text)):
        for field in ("id", "attr", "arg", "name", "module", "asname"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield from name.split(".")


def without_comments(text: str) -> str:
    return re.sub(r"--.*", "", text)


def modules() -> list[Path]:
    """Return our modules; benchmarks keep those of other queues in .environments."""
    found = (
        path
        for name in PYTHON
        for path in (ROOT / name).rglob("*.py")
        if ".environments" not in path.parts
    )
    return [path for path in found if FROZEN not in path.parents]


def test_replaced_words_are_no_identifiers():
    back = {
        f"{path.relative_to(ROOT)}: {name}, say {OLD[name]}"
        for path in modules()
        for name in identifiers(path.read_text())
        if name in OLD
    }
    assert sorted(back) == []


def test_replaced_words_are_no_names_of_sql():
    back = {
        f"{path.relative_to(ROOT)}: {word}"
        for path in (ROOT / "pgjobs").rglob("*.sql")
        for word in WORD.findall(without_comments(path.read_text()))
        if word in IN_SQL
    }
    assert sorted(back) == []


def test_replaced_words_are_no_names_of_files():
    files = [*modules(), *(ROOT / "pgjobs").rglob("*.sql")]
    back = [path.name for path in files if path.stem in OLD.keys() | IN_SQL]
    assert sorted(back) == []


@pytest.mark.parametrize("text", ["def f(look: Look): ...", "x.take_note(1)"])
def test_word_that_comes_back_is_found(text):
    assert OLD.keys() & set(identifiers(text))


def test_glossary_has_each_word_once_and_in_order():
    page = (ROOT / "docs/glossary.md").read_text()
    words = re.findall(r"^\| (?!word )([^|]+?) \| ", page, re.M)
    assert words == sorted(set(words), key=str.lower)
