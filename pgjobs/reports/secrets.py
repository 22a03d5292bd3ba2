"""Values of sensitive arguments in texts: in errors and in lines of a job's log."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from .json_text import MASK, is_secret

# A shorter value, such as 1 or "no", stands in many texts and says nothing there. It is
# masked only where it is a whole line, or all that follows a colon.
SHORTEST = 4
MOST_VALUES = 1_000


class Hiding:
    """Masks the values of sensitive arguments; reads these at the first text only.

    `arguments`: JSON text. `words`: what the task calls sensitive.
    """

    def __init__(self, arguments: str, words: tuple[str, ...]):
        self.arguments = arguments
        self.words = words
        self.mask: Callable[[str], str] | None = None

    def __call__(self, text: str) -> str:
        if self.mask is None:
            self.mask = hiding(self.arguments, self.words)
        return self.mask(text)


def hiding(arguments: str, words: tuple[str, ...]) -> Callable[[str], str]:
    """Return what masks the values of sensitive arguments in a text."""
    values = sensitive_values(arguments, words)
    if not values:
        return str
    mask = MASK.strip('"')
    anywhere = re.compile(f"(?<!\\w)(?:{listed(values, SHORTEST)})(?!\\w)")
    alone = re.compile(f"(?m)^(.*: )?['\"]?(?:{listed(values)})['\"]?$")
    return lambda text: alone.sub(rf"\1{mask}", anywhere.sub(mask, text))


def listed(values: set[str], shortest: int = 0) -> str:
    """Return a pattern for any of the values; one that nothing matches for none."""
    found = sorted((v for v in values if len(v) >= shortest), key=len, reverse=True)
    return "|".join(map(re.escape, found)) or "(?!)"


def sensitive_values(arguments: str, words: tuple[str, ...]) -> set[str]:
    """Return the values, as a text would quote them."""
    try:
        read = json.loads(arguments)
    except (ValueError, RecursionError):
        return set()
    found = {text for value in values_of(read, words) for text in quoted(value)}
    return set(sorted(found)[:MOST_VALUES])


def holds_secret(value: Any, words: tuple[str, ...]) -> bool:
    """Whether any value of it is masked."""
    return next(values_of(value, words), None) is not None


def values_of(value: Any, words: tuple[str, ...]) -> Iterator[Any]:
    """Yield the values of sensitive keys, however deep.

    No recursion: Python reads arguments that are deeper than its calls may be.
    """
    left = [(value, False)]
    while left:
        value, is_within = left.pop()
        if isinstance(value, dict):
            left += ((v, is_within or is_secret(k, words)) for k, v in value.items())
        elif isinstance(value, list):
            left += ((each, is_within) for each in value)
        elif is_within:
            yield value


def quoted(value: Any) -> Iterator[str]:
    if value is None or isinstance(value, bool):
        return
    for text in (str(value), repr(value).strip("'\"")):
        if text:
            yield text
