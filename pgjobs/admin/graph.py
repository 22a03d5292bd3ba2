"""What runs before and after a job, as a small picture."""

from collections.abc import Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from ..models import Job
from ..reports.texts import excerpt
from .links import Link

MOST = 8  # jobs on each side
BOX = (200, 28)  # width and height
GAP = (60, 10)
LONGEST = 26  # characters of a name


def graph(job: Job, before: Sequence[Link], after: Sequence[Link]) -> SafeString:
    """Return the picture; the lists beside it say the same in words."""
    here = Link(None, str(job), job.status.lower(), "", "")
    columns = [list(before[:MOST]), [here], list(after[:MOST])]
    rows = max(map(len, columns))
    height = rows * (BOX[1] + GAP[1])
    width = 3 * BOX[0] + 2 * GAP[0]
    boxes = [
        (link, at * (BOX[0] + GAP[0]), top(number, len(column), rows))
        for at, column in enumerate(columns)
        for number, link in enumerate(column)
    ]
    return format_html(
        '<svg class="pgjobs-graph" viewBox="0 0 {} {}" role="group" aria-label="{}">'
        "{}{}</svg>",
        *(width, height, _("Jobs before and after this one")),
        lines(columns, rows),
        format_html_join("", "{}", ((box(*each),) for each in boxes)),
    )


def top(number: int, of: int, rows: int) -> int:
    """Return where a box begins, so that each column is in the middle."""
    step = BOX[1] + GAP[1]
    return (rows - of) * step // 2 + number * step


def lines(columns: list[list[Link]], rows: int) -> SafeString:
    ends = [
        (at, top(number, len(columns[2 * at]), rows) + BOX[1] // 2)
        for at in (0, 1)
        for number in range(len(columns[2 * at]))
    ]
    middle = top(0, 1, rows) + BOX[1] // 2
    places = [
        (BOX[0] + at * (BOX[0] + GAP[0]), (y, middle)[at], (middle, y)[at])
        for at, y in ends
    ]
    return format_html_join(
        "",
        '<line x1="{}" y1="{}" x2="{}" y2="{}"></line>',
        ((x, first, x + GAP[0], second) for x, first, second in places),
    )


def box(link: Link, x: int, y: int) -> SafeString:
    name = excerpt(link.name, LONGEST)
    drawn = format_html(
        '<title>{} {}</title><rect class="pgjobs-node-{}" x="{}" y="{}" width="{}" '
        'height="{}"></rect><text x="{}" y="{}">{}</text>',
        *(link.name, link.status_word, link.status or "gone"),
        *(x + 1, y + 1, BOX[0] - 2, BOX[1] - 2, x + 10, y + 18, name),
    )
    if link.url is None:
        return format_html("<g>{}</g>", drawn)
    return format_html('<a href="{}">{}</a>', link.url, drawn)
