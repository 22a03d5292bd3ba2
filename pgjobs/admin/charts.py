"""Charts as SVG from the server: no script, no inline style, a table behind each."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _

from ..base.moments import instant
from ..reports.durations import seconds_in_words
from ..reports.figures import Period, Sums

WIDTH, HEIGHT = 720, 120
TICKS = 4  # marks below the chart


class History(NamedTuple):
    """What charts show: the sums of each span of a period."""

    spans: Sequence[Sums]
    period: Period
    # When a version of the code first ran, and its name.
    marks: Sequence[tuple[datetime, str]]

    @property
    def times(self) -> list[str]:
        return [time_of(sums, self.period) for sums in self.spans]

    @property
    def starts(self) -> list[tuple[float, str]]:
        """Return where versions begin, as a share of the width, and their names."""
        if not self.spans:
            return []
        first = int(self.spans[0].key)
        whole = len(self.spans) * self.period.step
        marks = ((instant(at).timestamp(), name) for at, name in self.marks)
        found = (((at - first) / whole, name) for at, name in marks)
        return [(share, name) for share, name in found if 0 <= share <= 1]


class Chart(NamedTuple):
    title: str
    svg: SafeString
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Part(NamedTuple):
    """A part of a bar: the class of its colour, and how high it is."""

    kind: str
    value: float


class Bar(NamedTuple):
    label: str  # the tooltip
    parts: Sequence[Part]

    @property
    def height(self) -> float:
        return sum(part.value for part in self.parts)


def ended_jobs(history: History) -> Chart:
    """Return the chart of how many jobs ended in each span, and how."""
    rows = [
        (time, sums.successful, sums.failed, sums.cancelled)
        for time, sums in zip(history.times, history.spans, strict=True)
    ]
    bars = [ends(*row) for row in rows]
    title = _("Jobs that ended")
    columns = (_("Time"), _("Successful"), _("Failed"), _("Cancelled"))
    highest = max((bar.height for bar in bars), default=0)
    svg = drawn(title, bars, f"{highest:,.0f}", history)
    return Chart(title, svg, columns, rows)


def ends(time: str, successful: int, failed: int, cancelled: int) -> Bar:
    text = _("%(time)s: %(successful)d successful, %(failed)d failed, %(other)d others")
    values = {"successful": successful, "failed": failed, "other": cancelled}
    parts = [
        Part("failed", failed),
        Part("cancelled", cancelled),
        Part("successful", successful),
    ]
    return Bar(text % {"time": time, **values}, parts)


def waiting_times(history: History) -> Chart:
    """Return the chart of how long 95 % of the jobs have waited at most."""
    # xgettext:no-python-format
    title = _("How long jobs waited (95 % of them no longer)")
    return durations(title, [sums.wait_time(0.95) for sums in history.spans], history)


def run_times(history: History) -> Chart:
    """Return the chart of how long 95 % of the attempts have run at most."""
    # xgettext:no-python-format
    title = _("How long attempts ran (95 % of them no longer)")
    return durations(title, [sums.run_time(0.95) for sums in history.spans], history)


def durations(title: str, found: Iterable[float | None], history: History) -> Chart:
    seconds = [each or 0.0 for each in found]
    rows = [
        (time, seconds_in_words(each))
        for time, each in zip(history.times, seconds, strict=True)
    ]
    bars = [
        Bar(f"{time}: {text}", [Part("waited", each)])
        for (time, text), each in zip(rows, seconds, strict=True)
    ]
    svg = drawn(title, bars, seconds_in_words(max(seconds, default=0.0)), history)
    return Chart(title, svg, (_("Time"), _("Duration")), rows)


def sparkline(numbers: Sequence[int]) -> SafeString:
    """Return a small chart for a cell of a table."""
    label = _("In each of the last hours: %(numbers)s") % {
        "numbers": ", ".join(map(str, numbers))
    }
    most = max(numbers, default=0) or 1
    bars = [
        (4 * at, 16 - round(16 * number / most), round(16 * number / most))
        for at, number in enumerate(numbers)
        if number
    ]
    return format_html(
        '<svg class="pgjobs-spark" viewBox="0 0 {} 16" width="{}" height="16" '
        'role="img" aria-label="{}"><title>{}</title>{}</svg>',
        *(4 * len(numbers), 4 * len(numbers), label, label),
        format_html_join("", '<rect x="{}" y="{}" width="3" height="{}"></rect>', bars),
    )


def time_of(sums: Sums, period: Period) -> str:
    zone = get_current_timezone()
    time = datetime.fromtimestamp(int(sums.key), zone)
    return date_format(time, "D H:i" if period.seconds > 86_400 else "H:i")


def drawn(
    title: str, bars: Sequence[Bar], highest: str, history: History
) -> SafeString:
    """Return the picture; sizes are attributes, which a strict CSP allows."""
    most = max((bar.height for bar in bars), default=0) or 1.0
    width = WIDTH / max(len(bars), 1)
    groups = format_html_join(
        "",
        "<g>{}<title>{}</title></g>",
        (
            (stacked(bar, number * width, width, most), bar.label)
            for number, bar in enumerate(bars)
        ),
    )
    return format_html(
        '<svg class="pgjobs-chart" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<line x1="0" x2="{}" y1="{}" y2="{}"></line>{}{}{}'
        '<text x="0" y="10">{}</text></svg>',
        *(WIDTH, HEIGHT + 20, title, WIDTH, HEIGHT, HEIGHT),
        *(groups, labels(history.times, width), versions(history.starts), highest),
    )


def stacked(bar: Bar, x: float, width: float, most: float) -> SafeString:
    y = float(HEIGHT)
    rectangles = []
    for part in bar.parts:
        height = part.value / most * (HEIGHT - 14)
        y -= height
        if height:
            size = (f"{x:.1f}", f"{y:.1f}", f"{width * 0.85:.1f}", f"{height:.1f}")
            rectangles.append((part.kind, *size))
    return format_html_join(
        "",
        '<rect class="pgjobs-bar-{}" x="{}" y="{}" width="{}" height="{}"></rect>',
        rectangles,
    )


def versions(lines: Iterable[tuple[float, str]]) -> SafeString:
    """Return a line for each version of the code, where it first ran."""
    return format_html_join(
        "",
        '<g><line class="pgjobs-version" x1="{}" x2="{}" y1="0" y2="{}"></line>'
        "<title>{}</title></g>",
        (
            (f"{share * WIDTH:.1f}", f"{share * WIDTH:.1f}", HEIGHT, name)
            for share, name in lines
        ),
    )


def labels(times: Sequence[str], width: float) -> SafeString:
    """Return the times below some bars."""
    if not times:
        return mark_safe("")
    step = max(len(times) // TICKS, 1)
    chosen: Iterable[tuple[str, int, str]] = (
        (f"{number * width:.1f}", HEIGHT + 14, times[number])
        for number in range(0, len(times), step)
    )
    return format_html_join("", '<text x="{}" y="{}">{}</text>', chosen)
