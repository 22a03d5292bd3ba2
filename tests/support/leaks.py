"""How a secret may stand in an output."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from html import escape
from urllib.parse import quote, quote_plus

WRITTEN: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "repr": lambda value: repr(value)[1:-1],
    "ascii": lambda value: ascii(value)[1:-1],
    "repr of bytes": lambda value: repr(value.encode())[2:-1],
    "JSON": lambda value: json.dumps(value)[1:-1],
    "JSON in UTF-8": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "HTML": escape,
    "HTML without quotes": lambda value: escape(value, quote=False),
    "quote": quote,
    "quote of all": lambda value: quote(value, safe=""),
    "quote_plus": quote_plus,
    "base64": lambda value: b64encode(value.encode()).decode(),
    "base64 for URLs": lambda value: urlsafe_b64encode(value.encode()).decode(),
}
HEXADECIMAL = re.compile(r"%[0-9A-F]{2}|(?<=\\x)[0-9a-f]{2}|(?<=\\u)[0-9a-f]{4}")


def in_capitals(text: str) -> str:
    """Return a text with its hexadecimal escapes in the other case."""
    return HEXADECIMAL.sub(lambda found: found[0].swapcase(), text)


def leaks_of(value: str, output: str) -> Iterator[str]:
    """Yield how the value stands in the output."""
    for name, written in WRITTEN.items():
        form = written(value)
        if form in output or in_capitals(form) in output:
            yield name
