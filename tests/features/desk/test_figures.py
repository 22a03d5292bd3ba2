"""Figures on the overview: charts that need no script, and a table behind each."""

import html
import json
import re
from collections import Counter
from datetime import timedelta
from io import StringIO
from itertools import pairwise
from random import Random

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from pgjobs.features.desk.counting import bucket_of
from pgjobs.features.desk.figures import PERIODS, Sums, figures, quantile, versions
from pgjobs.models import Figure, TaskDefinition
from pgjobs.sql import statement
from pgjobs.sql.columns import BUCKETS
from tests.operators import LIST, operator, text_of
from tests.processes import shared_queue
from tests.support.declared import store_definitions

pytestmark = pytest.mark.django_db

OVERVIEW = f"{LIST}overview/"


def histogram(**numbers: int) -> list[int]:
    """Return buckets: `b3=7` puts 7 durations into bucket 3."""
    buckets = [0] * BUCKETS
    for name, number in numbers.items():
        buckets[int(name[1:])] = number
    return buckets


def make_figure(age: timedelta = timedelta(0), span: int = 1, **columns) -> Figure:
    start = (timezone.now() - age).replace(second=0, microsecond=0)
    if span == 60:
        start = start.replace(minute=0)
    values = {
        "queue_name": "default",
        "task": "tests.noop",
    }
    return Figure.objects.create(start=start, span=span, **values | columns)


@pytest.mark.parametrize(
    "columns",
    [
        {"run_times": [1], "wait_times": []},
        {"run_buckets": [5, 7], "wait_buckets": [[-9, 3], [10**6, 2], [4, -5]]},
        {"run_buckets": [[4], [5]], "wait_buckets": [[None, 3], [4, None]]},
        {"run_buckets": [[4, 2**31 - 1], [4, 2**31 - 1]], "wait_buckets": [[[4, 3]]]},
        {"run_times": [None] * BUCKETS, "wait_times": [5] * 100},
        {"seconds": float("nan")},
        {"seconds": float("inf"), "successful": 1},
        {"seconds": -1e300, "failed": 1},
        {"successful": -(2**31), "run_times": [-(2**31)] * BUCKETS},
        {"successful": 2**31 - 1, "run_times": [2**31 - 1] * BUCKETS},
        {"successful": 1, "failed": -1},
        {"task": "", "queue_name": ""},
        {"task": "<b>%s{}", "queue_name": "\u202e'"},
    ],
    ids=str,
)
@pytest.mark.parametrize("period", PERIODS)
def test_figures_that_no_worker_has_written_are_shown_all_the_same(period, columns):
    make_figure()
    columns = {"task": "tests.add", **columns}
    make_figure(span=int(PERIODS[period].span), **columns)
    page = operator("view_job").get(OVERVIEW, {"period": period})
    assert columns["task"] in html.unescape(text_of(page))
    assert "<b>" not in text_of(page)


def test_figures_are_summed_by_task():
    for minutes in (1, 2):
        make_figure(
            timedelta(minutes=minutes),
            successful=5,
            failed=1,
            run_times=histogram(b3=6),
        )
    make_figure(task="tests.add", successful=100)
    make_figure(timedelta(hours=2), successful=100)
    make_figure(span=60, successful=100)
    add, noop = figures("default", PERIODS["hour"]).tasks
    assert (add.key, add.ended) == ("tests.add", 100)
    assert (noop.successful, noop.failed, noop.ended) == (10, 2, 12)
    assert noop.run_times == histogram(b3=12)
    only = figures("default", PERIODS["hour"], task="tests.add")
    assert [each.key for each in only.tasks] == ["tests.add"]
    assert sum(each.ended for each in only.spans) == 100
    assert figures("default", PERIODS["hour"], queue_name="mail").tasks == []


@pytest.mark.parametrize(("name", "number"), [("hour", 60), ("day", 24), ("week", 168)])
def test_every_span_of_a_period_is_there(name, number):
    period = PERIODS[name]
    make_figure(span=period.span, successful=3)
    spans = figures("default", period).spans
    assert len(spans) == number
    assert sum(each.successful for each in spans) == 3
    starts = [int(each.key) for each in spans]
    assert {b - a for a, b in pairwise(starts)} == {period.step}


def test_quantile_of_old_rows_lies_in_their_buckets():
    assert Sums().run_time(0.5) is None
    assert Sums(run_times=histogram(b0=10)).run_time(0.5) < 0.001
    old = Sums(run_times=histogram(b1=90, b11=10))
    assert old.run_time(0.5) < 0.002
    assert 1.024 < old.run_time(0.95) < 2.048
    assert Sums(failed=1, successful=3).failure_rate == 0.25


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["equal", "long", "short", "two humps"])
def test_quantile_is_within_ten_percent_of_the_truth(kind, seed):
    dice = Random(seed)
    one = dice.uniform(1e-3, 1e3)
    draw = {
        "equal": lambda: one,
        "long": lambda: dice.lognormvariate(0, 2),
        "short": lambda: dice.uniform(2e-5, 1e-3),
        "two humps": lambda: dice.gauss(dice.choice([0.02, 30]), 0.002),
    }[kind]
    values = sorted(abs(draw()) for _ in range(1_000))
    counted = Counter(map(bucket_of, values))
    for share in (0.5, 0.95):
        truth = values[int(share * 1_000) - 1]
        assert abs(quantile(counted, share) / truth - 1) < 0.1


def test_rows_of_0_9_0_count_beside_those_of_now():
    make_figure(timedelta(minutes=1), successful=60, run_times=histogram(b3=60))
    bucket = bucket_of(5.0)
    make_figure(successful=40, run_buckets=[[bucket, 40]])
    (noop,) = figures("default", PERIODS["hour"]).tasks
    assert noop.run_time(0.5) * 1.1 >= 0.004 and noop.run_time(0.5) < 0.009
    assert 4.5 < noop.run_time(0.95) < 5.5


def test_figures_are_found_by_their_index():
    parameters = {
        "span": 1,
        "seconds": 60,
        "task": None,
        "queue_name": None,
        "most": 1,
    }
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {statement('figures')}", parameters)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert re.search(r"Index Cond: \(\(span = .*start > ", plan)


@shared_queue
def test_worker_stores_once_that_its_version_first_ran(settings):
    for version in ("", "9", "9"):
        settings.PGJOBS = {"VERSION": version}
        call_command("runjobs", "--drain", verbosity=0)
    assert [name for _, name in versions("default", PERIODS["hour"])] == ["9"]


# The overview


def test_overview_draws_what_ended():
    make_figure(successful=9, failed=1, run_times=histogram(b3=10))
    page = text_of(operator("view_job").get(OVERVIEW))
    assert page.count('<rect class="pgjobs-bar-successful"') == 1
    assert page.count('<rect class="pgjobs-bar-failed"') == 1
    assert "9 successful, 1 failed" in page
    assert "1 (10%)" in page
    assert 'aria-label="Jobs that ended"' in page


def test_overview_shows_another_period():
    make_figure(span=60, successful=9)
    client = operator("view_job")
    assert "9 successful" not in text_of(client.get(OVERVIEW))
    assert "9 successful" in text_of(client.get(OVERVIEW, {"period": "week"}))
    assert client.get(OVERVIEW, {"period": "\0"}).status_code == 200


@pytest.mark.parametrize(
    ("failed", "of", "share"),
    [
        (0, 1_000, "0%"),
        (1, 10_000, "<0.1%"),
        (3, 1_000, "0.3%"),
        (10, 1_000, "1%"),
        (512, 1_000, "51%"),
        (999, 1_000, "99%"),
        (1_000, 1_000, "100%"),
    ],
)
def test_overview_does_not_call_a_few_failures_none(failed, of, share):
    make_figure(successful=of - failed, failed=failed)
    page = text_of(operator("view_job").get(OVERVIEW))
    assert f"{html.escape(share)} of the last hour" in page


def test_charts_need_no_script_and_no_style():
    make_figure(successful=9, task="<script>alert(1)</script>")
    page = text_of(operator("view_job").get(OVERVIEW))
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", page)


def test_jobstatus_reads_the_same_figures():
    make_figure(successful=9, failed=1, run_times=histogram(b3=10))
    output = StringIO()
    call_command("jobstatus", "--json", stdout=output)
    (task,) = json.loads(output.getvalue())["last_hour"]
    assert task["task"] == "tests.noop"
    assert (task["successful"], task["failed"]) == (9, 1)
    output = StringIO()
    call_command("jobstatus", stdout=output)
    assert re.search(r"tests.noop +10 +1 ", output.getvalue())


def test_page_of_a_task_shows_the_last_day():
    store_definitions()
    make_figure(span=60, successful=9, failed=1, run_times=histogram(b3=10))
    definition = TaskDefinition.objects.get(name="tests.noop")
    page = f"/admin/pgjobs/taskdefinition/{definition.pk}/change/"
    text = text_of(operator("view_taskdefinition").get(page))
    assert "10 jobs ended, 1 of them failed (10%)" in text
