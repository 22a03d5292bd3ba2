"""JSON columns as text: indented, with secrets masked, and never decoded.

A row inserted by SQL can hold JSON that Python's decoder refuses (numbers of 5000
digits, thousands of nested arrays), and a text may be cut short anywhere. So this reads
tokens of what PostgreSQL makes of a jsonb: all it needs is that keys precede colons.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache

from ..base.mask_names import HARMLESS, RESULT
from ..conf import settings

TOKEN = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"?'  # a string; the last one may be cut
    r"|[{}\[\],:]"
    r'|[^\s{}\[\],:"]+'
)
# A key is one only as a word of its own: a monkey or a keyboard is no secret.
SECRET = re.compile(
    "(?i:password|token|secret|authorization|apikey|accesskey|privatekey)"
    "|(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:keys?)(?![a-z])"
)
MASK = '"********"'
OPENING = frozenset("{[")
CLOSING = frozenset("}]")
DEEPEST_INDENT = 20


def plain(text: str) -> str:
    """Return JSON text on several lines, with nothing masked."""
    return "".join(indented(tokens(text)))


def readable(text: str, words: tuple[str, ...] = ()) -> str:
    """Return JSON text on several lines, the values of secret-looking keys masked.

    `words`: more names to mask, those that the task calls sensitive.
    """
    return "".join(indented(masked(tokens(text), is_secret, words)))


def on_one_line(text: str, words: tuple[str, ...]) -> str:
    """Return JSON text on one line, masked as by `readable`."""
    return "".join(masked(tokens(text), is_secret, words))


def masked_result(text: str, words: tuple[str, ...]) -> str:
    """Return the JSON text of a result; a mask if the task calls it sensitive."""
    return MASK if RESULT in words else text


def without_sensitive(text: str, words: tuple[str, ...]) -> str:
    """Return JSON text with the values masked that project or task call sensitive."""
    if not (words or settings.SENSITIVE):
        return text
    return "".join(masked(tokens(text), is_sensitive, words))


def with_names(text: str, names: tuple[str, ...], rest: str) -> str:
    """Return the text of a JSON array as that of an object: each value has a name.

    `rest`: the name of an array of all further values.
    """
    return "".join(named(tokens(text), names, json.dumps(rest)))


def named(tokens: Iterator[str], names: tuple[str, ...], rest: str) -> Iterator[str]:
    depth = place = 0
    for token in tokens:
        depth -= token in CLOSING
        if depth == 0 and token in OPENING:
            yield "{"
        elif depth == 0:
            yield "]}" if place > len(names) else "}"
        elif depth == 1 and token == ",":
            yield token
        elif depth == 1 and token not in CLOSING:
            if place < len(names):
                yield f"{json.dumps(names[place])}:"
            elif place == len(names):
                yield f"{rest}:["
            place += 1
            yield token
        else:
            yield token
        depth += token in OPENING


def tokens(text: str) -> Iterator[str]:
    return (match[0] for match in TOKEN.finditer(text))


def masked(
    tokens: Iterator[str],
    is_masked: Callable[[str, tuple[str, ...]], bool],
    words: tuple[str, ...],
) -> Iterator[str]:
    """Yield the tokens, with a mask for the value of each key that is to be masked."""
    previous = ""
    for token in tokens:
        yield token
        if token == ":" and is_masked(previous, words):
            yield from mask_value(tokens)
        previous = token


def is_secret(key: str, words: tuple[str, ...] = ()) -> bool:
    """Whether the values of this key are masked.

    `words`: what the task says. `"!s3_key"` says that this very name is harmless.
    """
    verdict = said(key, words)
    return bool(SECRET.search(key)) if verdict is None else verdict


def is_sensitive(key: str, words: tuple[str, ...] = ()) -> bool:
    """Whether the project or the task calls the values of this key sensitive."""
    return bool(said(key, words))


def said(key: str, words: tuple[str, ...]) -> bool | None:
    """Return what project and task say of a key; None if they do not speak of it.

    A name that one of them calls sensitive in full stays so, whatever else is said.
    """
    words = (*settings.SENSITIVE, *words)
    if not words:
        return None
    name = snake_case(key.strip('"'))
    sensitive = tuple(word for word in words if not word.startswith(HARMLESS))
    if name in map(snake_case, sensitive):
        return True
    if any(name == snake_case(word[1:]) for word in words if word not in sensitive):
        return False
    return True if names_one_of(sensitive, key) else None


def names_one_of(words: tuple[str, ...], key: str) -> bool:
    """Whether one of the project's own words is in a key, as a whole."""
    return bool(words) and pattern(words).search(snake_case(key)) is not None


@cache
def pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    listed = "|".join(re.escape(snake_case(word)) for word in words)
    return re.compile(f"(?<![^\\W_])(?:{listed})(?![^\\W_])")


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def mask_value(tokens: Iterator[str]) -> Iterator[str]:
    """Consume one value, however deep; yield the mask for it."""
    yield MASK
    depth = 0
    for token in tokens:
        depth += (token in OPENING) - (token in CLOSING)
        if depth == 0:
            return


def indented(tokens: Iterator[str]) -> Iterator[str]:
    depth = 0
    previous = ""
    for token in tokens:
        depth -= token in CLOSING
        is_empty = token in CLOSING and previous in OPENING
        if (
            token in CLOSING or previous in OPENING or previous == ","
        ) and not is_empty:
            yield "\n" + "  " * min(depth, DEEPEST_INDENT)
        yield ": " if token == ":" else token
        depth += token in OPENING
        previous = token
