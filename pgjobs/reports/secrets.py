"""Values of sensitive arguments in texts: in errors and in lines of a job's log."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .encodings import encoded, pattern_of
from .json_text import MASK, is_secret, on_one_line

# A shorter value, such as 1 or "no", stands in many texts and says nothing there. It is
# masked only where it is a whole line, or all that follows a colon.
SHORTEST = 4
# A value of this length is masked also as a part of a word.
LONG = 8
LONGEST = 500
DIGEST = ":sha256:"
MOST_VALUES = 1_000
TEXT_MASK = MASK.strip('"')
# What may stand before a short value: no letter or digit, unless an escape ends there.
BEFORE = (
    r"(?:(?<!\w)|(?<=\\[nrtabfv0])|(?<=%[0-9A-Fa-f]{2})|(?<=\\x[0-9A-Fa-f]{2})"
    r"|(?<=\\u[0-9A-Fa-f]{4}))"
)
NO_NAME = re.compile(r"\d|\W")


class Hiding:
    """Masks the values of sensitive arguments; reads these at the first text only.

    `arguments`: JSON texts, or None. `words`: what the task says of names.
    """

    def __init__(self, words: tuple[str, ...], *arguments: str | None):
        self.arguments = arguments
        self.words = words
        self.mask: Callable[[str], str] | None = None

    def __call__(self, text: str) -> str:
        if self.mask is None:
            self.mask = hiding(self.words, *self.arguments)
        return self.mask(text)


def hiding(words: tuple[str, ...], *arguments: str | None) -> Callable[[str], str]:
    """Return what masks the values of sensitive arguments in a text."""
    return hiding_values(sensitive_values(words, arguments))


def hiding_values(values: Iterable[str]) -> Callable[[str], str]:
    """Return what masks these values in a text, however they are written there."""
    values = set(values)
    if not values:
        return str
    long = [value for value in values if len(value) >= LONG]
    short = [value for value in values if SHORTEST <= len(value) < LONG]
    coded = {form for value in long for form in encoded(value)}
    anywhere = re.compile(listed({*long, *coded}))
    as_a_word = re.compile(f"{BEFORE}(?:{listed(short)})(?!\\w)")
    alone = re.compile(f"(?m)^(.*: )?['\"]?(?:{listed(values)})['\"]?$")

    def mask(text: str) -> str:
        text = as_a_word.sub(TEXT_MASK, anywhere.sub(TEXT_MASK, text))
        return alone.sub(rf"\1{TEXT_MASK}", text)

    return mask


def masked_key(key: str, words: tuple[str, ...], *arguments: str | None) -> str:
    """Return a key of a job without the values of its sensitive arguments.

    Short values are masked, too: keys are made of arguments.
    """
    if DIGEST in key and any(names_secret(text, words) for text in arguments):
        return key.partition(DIGEST)[0] + DIGEST + TEXT_MASK  # a short value is guessed
    values = sensitive_values(words, arguments)
    return re.sub(listed(values), TEXT_MASK, key)


def names_secret(text: str | None, words: tuple[str, ...]) -> bool:
    return MASK in on_one_line(text or "", words)


def listed(values: Iterable[str]) -> str:
    """Return a pattern for any of these; one that nothing matches for none."""
    found = sorted(filter(None, pieces(values)), key=len, reverse=True)
    return "|".join(map(pattern_of, found)) or "(?!)"


def pieces(values: Iterable[str]) -> set[str]:
    """Return the values; long ones in pieces, which are masked one by one."""
    return {
        value[start : start + LONGEST]
        for value in values
        for start in range(0, len(value), LONGEST)
        if start == 0 or len(value) - start >= SHORTEST
    }


def sensitive_values(
    words: tuple[str, ...], arguments: Iterable[str | None]
) -> set[str]:
    """Return the texts of all values that are masked, MOST_VALUES of them at most."""
    found: set[str] = set()
    for text in filter(None, arguments):
        try:
            # Numbers as they are: Python converts none of thousands of digits.
            read = json.loads(text, parse_int=str)
        except (ValueError, RecursionError):
            continue
        found.update(texts_of(read, words))
    # The longest ones say most.
    return set(sorted(found, key=len, reverse=True)[:MOST_VALUES])


def texts_of(read: Any, words: tuple[str, ...]) -> Iterator[str]:
    """Yield the texts of the values of sensitive keys."""
    for value in values_of(read, words):
        if value is not None and not isinstance(value, bool):
            yield from filter(None, {str(value), repr(value).strip("'\"")})


def holds_secret(value: Any, words: tuple[str, ...]) -> bool:
    """Whether any value of it is masked."""
    return next(values_of(value, words), None) is not None


def values_of(value: Any, words: tuple[str, ...]) -> Iterator[Any]:
    """Yield the values of sensitive keys, however deep.

    Of an object among them also the keys, unless they are mere names. No recursion:
    Python reads arguments that are deeper than its calls may be.
    """
    left = [(value, False)]
    while left:
        value, is_within = left.pop()
        if isinstance(value, dict):
            left += ((v, is_within or is_secret(k, words)) for k, v in value.items())
            if is_within:
                yield from filter(NO_NAME.search, value)
        elif isinstance(value, list):
            left += ((each, is_within) for each in value)
        elif is_within:
            yield value


def keys_in(value: Any) -> Iterator[str]:
    """Yield the keys of all objects in it, however deep."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield from value
            left += value.values()
        elif isinstance(value, list):
            left += value
