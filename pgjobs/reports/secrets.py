"""Values of sensitive arguments in texts: in errors and in lines of a job's log."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .encodings import encoded, plain
from .json_text import MASK, is_secret, on_one_line

# A shorter value, such as 1 or "no", stands in many texts and says nothing there. It is
# masked only where it is a whole line, or all that follows a colon.
SHORTEST = 4
# A value of this length is masked also as a part of a word.
LONG = 8
LONGEST_ENCODED = 1_000  # characters of a value that are looked for in base64
DIGEST = ":sha256:"
MOST_VALUES = 1_000  # that are looked for in a text; beside more, all of it is masked
TEXT_MASK = MASK.strip('"')
NO_NAME = re.compile(r"\d|\W")


class Hiding:
    """Masks the values of sensitive arguments; reads these at the first text only.

    `arguments`: JSON texts, or what returns them, or None. `words`: what the task says
    of names.
    """

    def __init__(
        self, words: tuple[str, ...], *arguments: str | Callable[[], str] | None
    ):
        self.arguments = arguments
        self.words = words
        self.mask: Callable[[str], str] | None = None

    def __call__(self, text: str) -> str:
        if self.mask is None:
            given = (
                argument() if callable(argument) else argument
                for argument in self.arguments
            )
            self.mask = hiding(self.words, *given)
        return self.mask(text)


def hiding(words: tuple[str, ...], *arguments: str | None) -> Callable[[str], str]:
    """Return what masks the values of sensitive arguments in a text."""
    return hiding_values(sensitive_values(words, arguments))


def hiding_values(values: Iterable[str]) -> Callable[[str], str]:
    """Return what masks these values in a text, however they are written there."""
    values = set(values)
    if not values:
        return str
    if len(values) > MOST_VALUES:  # a text may hold any of them
        return lambda text: text and TEXT_MASK
    long = {value for value in values if len(value) >= LONG}
    short = {value for value in values if SHORTEST <= len(value) < LONG}
    finders = finders_of(
        long | {form for each in long for form in encoded(each[:LONGEST_ENCODED])},
        short,
    )
    quoted = {form for each in values for form in (each, repr(each)[1:-1])}
    listed = "|".join(map(re.escape, sorted(quoted, key=len, reverse=True)))
    alone = re.compile(f"(?m)^(.*: )?['\"]?(?:{listed})['\"]?$")

    def mask(text: str) -> str:
        return alone.sub(rf"\1{TEXT_MASK}", without(finders, text))

    return mask


class Finder(NamedTuple):
    """Finds values in a text, read in one of two ways; see `plain`."""

    x_is_byte: bool
    pattern: re.Pattern[bytes]


def finders_of(anywhere: set[str], as_words: set[str]) -> list[Finder]:
    """Return what finds these values, `as_words` where no letter is beside them."""
    finders = []
    for x_is_byte in (False, True):
        parts = [listed(anywhere, x_is_byte)]
        parts.append(
            rb"(?<![\w\x80-\xff])(?:%b)(?![\w\x80-\xff])" % listed(as_words, x_is_byte)
        )
        finders.append(Finder(x_is_byte, re.compile(b"|".join(parts))))
    return finders


def listed(values: Iterable[str], x_is_byte: bool) -> bytes:
    """Return a pattern for any of these; one that nothing matches for none."""
    contents = {plain(value, x_is_byte).content for value in values} - {b""}
    return b"|".join(map(re.escape, sorted(contents, key=len, reverse=True))) or b"(?!)"


def without(finders: list[Finder], text: str) -> str:
    """Return the text with a mask for whatever is found."""
    for finder in finders:
        if finder.x_is_byte and "\\x" not in text:
            continue
        read = plain(text, finder.x_is_byte)
        pieces, position = [], 0
        for each in finder.pattern.finditer(read.content):
            start, end = read.starts[each.start()], read.ends[each.end() - 1]
            if start >= position:
                pieces += [text[position:start], TEXT_MASK]
            position = max(position, end)
        text = "".join([*pieces, text[position:]])
    return text


def masked_key(key: str, words: tuple[str, ...], *arguments: str | None) -> str:
    """Return a key of a job without the values of its sensitive arguments.

    Short values are masked, too: keys are made of arguments.
    """
    if DIGEST in key and any(names_secret(text, words) for text in arguments):
        return key.partition(DIGEST)[0] + DIGEST + TEXT_MASK  # a short value is guessed
    values = sensitive_values(words, arguments)
    if len(values) > MOST_VALUES:
        return TEXT_MASK
    return without(finders_of(values, set()), key) if values else key


def names_secret(text: str | None, words: tuple[str, ...]) -> bool:
    return MASK in on_one_line(text or "", words)


def sensitive_values(
    words: tuple[str, ...], arguments: Iterable[str | None]
) -> set[str]:
    """Return the texts of all values that are masked."""
    secrets: set[str] = set()
    for text in filter(None, arguments):
        try:
            # Numbers as they are: Python converts none of thousands of digits.
            read = json.loads(text, parse_int=str)
        except (ValueError, RecursionError):
            continue
        secrets.update(texts_of(read, words))
    return secrets


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
