"""Charts as SVG from the server: no script, no inline style, a table behind each."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ...base.moments import instant
from ...reports.durations import seconds_in_words
from .figures import Period, Sums

WIDTH, HEIGHT = 360, 100
TOP = 16  # of the highest bar
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
    """What `chart.html` draws, and the table behind it."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    highest: str
    width: float  # of a bar
    # Of each bar the left edge, the tooltip, and each segment as class, top and height.
    bars: list[tuple[float, str, list[tuple[str, float, float]]]]
    labels: list[tuple[float, str]]
    versions: list[tuple[float, str]]
    is_empty: bool
    otherwise: str  # the text of an empty one


class Segment(NamedTuple):
    """A segment of a bar: the class of its colour, and how high it is."""

    kind: str
    value: float


class Bar(NamedTuple):
    label: str  # the tooltip
    segments: Sequence[Segment]

    @property
    def height(self) -> float:
        return sum(segment.value for segment in self.segments)


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
    unit = ngettext("%(number)s job", "%(number)s jobs", int(highest))
    shown = unit % {"number": f"{highest:,.0f}"}
    return drawn(title, columns, rows, bars, shown, history)


def ends(time: str, successful: int, failed: int, cancelled: int) -> Bar:
    text = _("%(time)s: %(successful)d successful, %(failed)d failed, %(other)d others")
    values = {"successful": successful, "failed": failed, "other": cancelled}
    segments = [
        Segment("failed", failed),
        Segment("cancelled", cancelled),
        Segment("successful", successful),
    ]
    return Bar(text % {"time": time, **values}, segments)


def waiting_times(history: History) -> Chart:
    """Return the chart of how long 95 % of the jobs have waited at most."""
    title = _("Waiting time, p95")
    return durations(title, [sums.wait_time(0.95) for sums in history.spans], history)


def run_times(history: History) -> Chart:
    """Return the chart of how long 95 % of the attempts have run at most."""
    title = _("Run time, p95")
    return durations(title, [sums.run_time(0.95) for sums in history.spans], history)


def durations(title: str, found: Iterable[float | None], history: History) -> Chart:
    seconds = [each or 0.0 for each in found]
    rows = [
        (time, about(each)) for time, each in zip(history.times, seconds, strict=True)
    ]
    bars = [
        Bar(f"{time}: {text}", [Segment("waited", each)])
        for (time, text), each in zip(rows, seconds, strict=True)
    ]
    highest = about(max(seconds, default=0.0))
    return drawn(title, (_("Time"), _("Duration")), rows, bars, highest, history)


def about(seconds: float | None) -> str:
    """Return a duration that is known to a tenth, with a mark that says so."""
    return f"~{seconds_in_words(seconds)}" if seconds else ""


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


def drawn(title, columns, rows, bars: list[Bar], highest, history: History) -> Chart:
    """Return where all is; sizes are attributes, which a strict CSP allows."""
    most = max((bar.height for bar in bars), default=0) or 1.0
    step = WIDTH / max(len(bars), 1)
    labelled = range(0, len(bars), max(len(bars) // TICKS, 1))
    return Chart(
        *(title, columns, rows, highest),
        width=step * 0.85,
        bars=[
            (at * step, bar.label, list(stacked(bar, most)))
            for at, bar in enumerate(bars)
        ],
        labels=[(at * step, history.times[at]) for at in labelled],
        versions=[(share * WIDTH, name) for share, name in history.starts],
        is_empty=not any(bar.height for bar in bars),
        otherwise=_("Nothing has ended since %(time)s.")
        % {"time": history.times[0] if history.spans else ""},
    )


def stacked(bar: Bar, most: float) -> Iterator[tuple[str, float, float]]:
    """Yield the class, top and height of each segment that is not empty."""
    y = float(HEIGHT)
    for segment in bar.segments:
        height = segment.value / most * (HEIGHT - TOP)
        y -= height
        if height:
            yield segment.kind, y, height
