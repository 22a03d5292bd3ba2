"""How a text may stand in another one: quoted, escaped, encoded, even several times."""

from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from functools import cache
from html import escape
from re import escape as literal

NAMED_ESCAPES = dict(zip("\a\b\t\n\v\f\r\0", "abtnvfr0", strict=True))


def pattern_of(text: str) -> str:
    """Return a pattern that a text matches however reprs, JSON, HTML or URLs write it.

    Each character may be written in another way, because the ways are combined: the
    repr of a list quotes JSON, which a URL contains.
    """
    return "".join(map(character, text))


@cache
def character(each: str) -> str:
    if each.isascii() and each.isalnum():
        return each
    return f"(?:{'|'.join(ways(each))})"


def ways(each: str) -> Iterator[str]:
    """Yield patterns for one character; of any number of backslashes before it."""
    code = ord(each)
    content = each.encode(errors="surrogatepass")
    yield "".join(f"%(?:25)*(?i:{byte:02x})" for byte in content)
    yield "".join(rf"\\+x(?i:{byte:02x})" for byte in content)
    if code < 0x100:
        yield rf"\\+x(?i:{code:02x})"
    yield rf"\\+U(?i:{code:08x})"
    units = each.encode("utf-16-be", errors="surrogatepass").hex()
    yield "".join(rf"\\+u(?i:{units[i : i + 4]})" for i in range(0, len(units), 4))
    if each in NAMED_ESCAPES:
        yield rf"\\+{NAMED_ESCAPES[each]}"
    yield rf"&(?:amp;)*\#(?:{code}|[xX](?i:{code:x}));"
    if (entity := escape(each)) != each:
        yield f"&(?:amp;)*{entity[1:]}"
    if each == " ":
        yield r"\+"
    yield r"\\+" if each == "\\" else rf"\\*{literal(each)}"


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
