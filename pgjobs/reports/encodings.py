"""How a text may stand in another one: quoted, escaped, or encoded."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from html import escape
from urllib.parse import quote, quote_plus

# Escapes with hexadecimal digits, which some programs write in capitals.
ESCAPE = re.compile(
    r"(%[0-9A-Fa-f]{2}|\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}|&#x[0-9a-f]+;)"
)


def quoted(text: str) -> Iterator[str]:
    """Yield the ways in which reprs, JSON, HTML and URLs write a text."""
    yield text
    yield from (repr(text)[1:-1], ascii(text)[1:-1])
    yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    yield from (escape(text), escape(text, quote=False))
    yield escape(text).replace("&#x27;", "&#39;")
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return  # a lone surrogate, which no URL can hold
    yield repr(encoded)[2:-1]
    yield from (quote(encoded), quote(encoded, safe=""), quote_plus(encoded))


def encoded(text: str) -> Iterator[str]:
    """Yield what base64 makes of a text, also in the middle of a longer one."""
    content = text.encode(errors="ignore")
    for offset in range(3):
        padded = bytes(offset) + content
        # The characters at both ends depend on what stands beside the text.
        start = (offset * 8 + 5) // 6
        end = len(padded) * 8 // 6
        yield b64encode(padded)[start:end].decode()
        yield urlsafe_b64encode(padded)[start:end].decode()


def pattern_of(text: str) -> str:
    """Return a pattern for a text, its hexadecimal escapes in either case."""
    parts = ESCAPE.split(text)
    return "".join(
        f"(?i:{re.escape(part)})" if number % 2 else re.escape(part)
        for number, part in enumerate(parts)
    )
