"""How a text may stand in another one: quoted, escaped, encoded, even several times."""

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

# The ways of Python's reprs, JSON, URLs and HTML. They may be combined: the repr of a
# list quotes JSON, so that there are more backslashes, or more of %25 and &amp;.
WRITTEN = re.compile(
    r"\\+u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\+u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\+u(?P<short>[0-9a-fA-F]{4})|\\+U(?P<long>000[0-9a-fA-F]{5})"
    r"|\\+x(?P<byte>[0-9a-fA-F]{2})|\\+(?P<named>[abtnvfr])|(?P<slashes>\\+)"
    r"|%(?:25)*(?P<url>[0-9a-fA-F]{2})|(?P<plus>\+)"
    r"|&(?:amp;)*(?P<entity>\#\d{1,7}|\#[xX][0-9a-fA-F]{1,6}|quot|apos|lt|gt|amp);"
)
NAMED = dict(zip("abtnvfr", "\a\b\t\n\v\f\r", strict=True))


class Plain(NamedTuple):
    """A text with nothing quoted, as UTF-8, and where each byte of it comes from."""

    content: bytes
    starts: list[int]
    ends: list[int]


def plain(text: str, x_is_byte: bool = False) -> Plain:
    """Return the text with all that is quoted or escaped resolved.

    `x_is_byte`: whether `\\xe9` is a byte, as in the repr of bytes, or a character.
    """
    content = bytearray()
    starts: list[int] = []
    ends: list[int] = []

    def add(piece: bytes, start: int, end: int) -> None:
        content.extend(piece)
        starts.extend([start] * len(piece))
        ends.extend([end] * len(piece))

    def add_raw(start: int, end: int) -> None:
        raw = text[start:end]
        if raw.isascii():
            content.extend(raw.encode())
            starts.extend(range(start, end))
            ends.extend(range(start + 1, end + 1))
        else:
            for place, each in enumerate(raw, start):
                add(utf8(each), place, place + 1)

    position = 0
    for found in WRITTEN.finditer(text):
        add_raw(position, found.start())
        add(resolved(found, x_is_byte), *found.span())
        position = found.end()
    add_raw(position, len(text))
    return Plain(bytes(content), starts, ends)


def resolved(found: re.Match[str], x_is_byte: bool) -> bytes:
    """Return what one escape stands for. Backslashes alone stand for nothing."""
    kind, given = found.lastgroup, found[found.lastgroup or 0]
    match kind:
        case "low":
            high = int(found["high"], 16) - 0xD800
            return utf8(chr(0x10000 + high * 0x400 + int(given, 16) - 0xDC00))
        case "byte" | "url" if kind == "url" or x_is_byte:
            return as_space(bytes([int(given, 16)]))
        case "short" | "long" | "byte":
            code = int(given, 16)
            return as_space(utf8(chr(min(code, 0x10FFFF))))
        case "named":
            return NAMED[given].encode()
        case "plus":
            return b" "
        case "entity":
            return as_space(utf8(unescape(f"&{given};")))
    return b""


def as_space(content: bytes) -> bytes:
    """Return a space for a plus, because URLs write it so; no backslash."""
    return {b"+": b" ", b"\\": b""}.get(content, content)


def utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


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
