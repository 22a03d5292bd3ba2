"""Pieces of HTML that the columns of several lists share."""

import re
from datetime import datetime, timedelta, tzinfo
from typing import Any

from django.contrib import admin
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from django.utils.timezone import now
from django.utils.translation import gettext

from ..base.moments import instant, local
from ..reports.durations import seconds_in_words
from ..reports.texts import block, excerpt

LONGEST_CELL = 80
LONGEST_TEXT = 20_000
NO_TIME = timedelta(0)


def short(field: str, title):
    """Return a column: the beginning of a field that may hold anything."""

    @admin.display(description=title)
    def column(self, row) -> str:
        text = excerpt(getattr(row, field) or "", LONGEST_CELL)
        return breakable(text) if text else self.get_empty_value_display()

    return column


def full(field: str, title):
    """Return what a page shows of such a field."""

    @admin.display(description=title)
    def column(self, row) -> str:
        text = block(getattr(row, field) or "", LONGEST_TEXT)
        return text or self.get_empty_value_display()

    return column


def breakable(name: str) -> str:
    """Return a dotted name that a narrow column breaks between its words only."""
    parts = re.split(r"(?<=[._])", name)
    return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in parts))


def status_word(kind: str, word: str, note: str = "") -> str:
    """Return a word in the colour of its kind, a class of the stylesheet."""
    mark = format_html('<span class="pgjobs-status pgjobs-{}">{}</span>', kind, word)
    return format_html("{} {}", mark, note) if note else mark


def status_and_note(mark: str, note: str) -> str:
    """Return a status word with a note below it."""
    return format_html('{}<div class="pgjobs-reason">{}</div>', mark, note)


def preformatted(text: str, limit: int) -> str:
    """Return a text with its lines as they are, cut at `limit` characters."""
    return format_html(
        '<pre class="pgjobs-text" tabindex="0">{}</pre>', block(text, limit)
    )


def ago(time: datetime | None, word: Any = "") -> str:
    """Return how long ago a time was, or in how long it will be; exactly as a title.

    `word`: what happened then, for the title.
    """
    if time is None:
        return ""
    age = instant(now()) - instant(time)
    words = gettext("%(age)s ago") if age >= NO_TIME else gettext("in %(age)s")
    text = words % {"age": lasting(abs(age))}
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        instant(time).isoformat(),
        f"{word} {exact(time)}".strip(),
        text,
    )


def exactly(time: datetime | None) -> str:
    """Return a time to the second, with its zone, and how long ago it was."""
    if time is None:
        return ""
    return format_html('{} <span class="quiet">({})</span>', exact(time), ago(time))


def exact(time: datetime, zone: tzinfo | None = None) -> str:
    """Return a time to the second with its zone: a given one, or the user's."""
    return f"{local(time, zone):%Y-%m-%d %H:%M:%S %Z}"


def lasting(age: timedelta) -> str:
    return seconds_in_words(age.total_seconds())


def size(number: int | None) -> str:
    """Return a number of bytes in one unit, or nothing if it is not known."""
    return "" if number is None else filesizeformat(number)


def moment(field: str, title):
    """Return a field of a page: a time of the row."""

    @admin.display(description=title)
    def column(self, row) -> str:
        return exactly(getattr(row, field)) or self.get_empty_value_display()

    return column
