"""What jobs and their tasks wrote, made safe to look at."""

import re

from django.utils.translation import gettext

# Control characters (ANSI escapes begin with one) and those that change the direction
# of the text around them: shown by their number instead of taking effect.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
LONGEST_LINE = 300


def visible(text: str) -> str:
    """Return the text with every character that would not be seen as its number."""
    return INVISIBLE.sub(
        lambda match: f"\\u{ord(match[0]):04x}", text.replace("\r\n", "\n")
    )


def excerpt(text: str, limit: int) -> str:
    """Return the text, visible, on one line of at most `limit` characters."""
    # Cut first, with room for white space: the text may be megabytes long.
    line = visible(" ".join(text[: 2 * limit].split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def block(text: str, limit: int, *, is_cut: bool = False) -> str:
    """Return the text, visible, cut at `limit` characters, with a note if it is cut.

    `is_cut` says that the database has already cut it.
    """
    shown = visible(text[:limit])
    if not is_cut and len(text) <= limit:
        return shown
    note = gettext("(Only the first %(limit)d characters are shown.)")
    return f"{shown}\n… {note % {'limit': limit}}"


def one_line(text: str) -> str:
    """Return an untrusted text as one line without control characters."""
    text = " ".join(text.split())
    if len(text) > LONGEST_LINE:
        text = f"{text[:LONGEST_LINE]}..."
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
