"""How far a running job is, as its task says."""

import math
from typing import NamedTuple

from django.db.models.functions import Left
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.translation import gettext

from ..models.job import Job
from ..models.job_choices import Status
from ..models.progress import Progress
from ..reports.texts import excerpt

LONGEST_LINE = 80


class Bar(NamedTuple):
    """Progress; `value` and `most` are the attributes of an HTML progress element."""

    done: float
    total: float | None
    value: str
    most: str
    message: str


def bar(done: float, total: float | None, message: str) -> Bar:
    if total is None or total <= 0 or not math.isfinite(total + done):
        return Bar(done, None, "", "", message)
    # As text: a localised number is no valid attribute.
    return Bar(done, total, f"{min(max(done, 0), total):g}", f"{total:g}", message)


def bar_in_row(shown: Bar) -> str:
    """Return what a list shows of the progress."""
    if shown.total is None:
        return format_html("{} {}", number_format(shown.done, 0), shown.message)
    percent = f"{float(shown.value) / float(shown.most):.0%}"
    label = gettext("Progress")
    return format_html(
        '<progress value="{}" max="{}" aria-label="{}"></progress> {} {}',
        *(shown.value, shown.most, label, percent, shown.message),
    )


def add_progress(jobs: list[Job]) -> None:
    """Give the running jobs of a list their bars, read by one statement."""
    running = {job.pk: job for job in jobs if job.status == Status.RUNNING}
    rows = Progress.objects.filter(pk__in=running, done__isnull=False)
    rows = rows.annotate(start=Left("message", 2 * LONGEST_LINE))
    for row in rows.values_list("pk", "done", "total", "start"):
        shown = bar(row[1], row[2], excerpt(row[3], LONGEST_LINE))
        running[row[0]].progress_bar = bar_in_row(shown)
