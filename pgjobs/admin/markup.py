"""Pieces of HTML that the columns of several lists share."""

from datetime import datetime

from django.contrib import admin
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.timezone import localtime

from .texts import block, excerpt

LONGEST_CELL = 80
LONGEST_TEXT = 20_000


def short(field: str, title):
    """Return a column: the beginning of a field that may hold anything."""

    @admin.display(description=title)
    def column(self, row) -> str:
        text = excerpt(getattr(row, field) or "", LONGEST_CELL)
        return text or self.get_empty_value_display()

    return column


def full(field: str, title):
    """Return what a page shows of such a field."""

    @admin.display(description=title)
    def column(self, row) -> str:
        text = block(getattr(row, field) or "", LONGEST_TEXT)
        return text or self.get_empty_value_display()

    return column


def status_word(kind: str, word: str, note: str = "") -> str:
    """Return a word in the colour of its kind, a class of the stylesheet."""
    mark = format_html('<span class="pgjobs-status pgjobs-{}">{}</span>', kind, word)
    return format_html("{} {}", mark, note) if note else mark


def status_and_note(mark: str, note: str) -> str:
    """Return a status word with a note below it."""
    return format_html('{}<div class="pgjobs-reason">{}</div>', mark, note)


def preformatted(text: str, limit: int) -> str:
    """Return a text with its lines as they are, cut at `limit` characters."""
    return format_html('<pre class="pgjobs-text">{}</pre>', block(text, limit))


def shown(time: datetime) -> str:
    return date_format(localtime(time), "SHORT_DATETIME_FORMAT")
