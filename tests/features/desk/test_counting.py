"""Figures: counted in memory, added up now and then, kept for a while."""

import re
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models.expressions import RawSQL
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from pgjobs import Cancel, Retry, Snooze, current_job, enqueue, task
from pgjobs.draining import drain
from pgjobs.features.desk import counting
from pgjobs.features.desk.chore import add_figures, prune_figures
from pgjobs.features.desk.counting import (
    MOST_BUCKETS,
    Counted,
    bucket_of,
    counted_by,
    upper_bound,
)
from pgjobs.models import Figure, Job
from pgjobs.queue.statements import execute_on
from pgjobs.sql import statement
from tests import tasks
from tests.processes import running_worker, shared_queue, wait_for

pytestmark = shared_queue

MINUTE = Figure.Span.MINUTE


def figure_of(name: str, span=MINUTE) -> Figure:
    """Return the sums of a task, over all the minutes that the test took."""
    found = list(Figure.objects.filter(task=name, span=span))
    assert found, "it was counted"
    total = found[0]
    for each in found[1:]:
        for column in ("successful", "failed", "cancelled", "retried", "seconds"):
            setattr(total, column, getattr(total, column) + getattr(each, column))
        for column in ("run_buckets", "wait_buckets"):
            setattr(total, column, [*getattr(total, column), *getattr(each, column)])
    return total


@task(max_attempts=4)
def end_in_many_ways():
    match current_job().attempt:
        case 1:
            raise Retry(after=0)
        case 2:
            raise Snooze(0)
        case _:
            raise Cancel("enough")


def test_each_end_is_counted_by_queue_and_task():
    for _ in range(3):
        enqueue(tasks.noop)
    enqueue(tasks.fail_with, "no")
    enqueue(end_in_many_ways)
    drain()
    for span in Figure.Span:
        assert figure_of("tests.noop", span).successful == 3
    assert figure_of("tests.fail_with").failed == 1
    many = figure_of(end_in_many_ways.name)
    assert (many.retried, many.cancelled, many.successful) == (1, 1, 0)
    assert number_of(many.run_buckets) == 2, (
        "an attempt that snoozed has not ended the job"
    )


def test_run_time_and_waiting_time_are_counted_in_buckets():
    job = enqueue(tasks.sleep, 0.2)
    Job.objects.filter(pk=job.pk).update(
        enqueued_at=timezone.now() - timedelta(minutes=10)
    )
    drain()
    figure = figure_of("tests.sleep")
    assert 0.2 <= figure.seconds < 100
    ((run, _),) = figure.run_buckets
    ((wait, _),) = figure.wait_buckets
    assert upper_bound(run) > 0.2
    assert upper_bound(wait) > 600 > upper_bound(wait - 2)


def test_scheduled_job_has_waited_since_it_was_due():
    job = enqueue(tasks.noop.using(run_after=timedelta(hours=1)))
    Job.objects.filter(pk=job.pk).update(
        enqueued_at=timezone.now() - timedelta(days=3),
        run_after=timezone.now() - timedelta(minutes=10),
    )
    drain()
    ((wait, _),) = figure_of("tests.noop").wait_buckets
    assert upper_bound(wait) > 600 > upper_bound(wait - 2)


def longest_wait(figure: Figure) -> float:
    """Return the seconds that no job has waited for."""
    return upper_bound(max(bucket for bucket, _ in figure.wait_buckets))


def number_of(pairs: list[list[int]]) -> int:
    return sum(number for _, number in pairs)


def let_wait(job: Job, minutes: int) -> None:
    at = timezone.now() - timedelta(minutes=minutes)
    Job.objects.filter(pk=job.pk).update(enqueued_at=at)


def test_job_with_a_new_life_waits_since_its_retry():
    job = enqueue(tasks.noop)
    drain()
    let_wait(job, minutes=60)
    job.refresh_from_db()
    job.retry()
    drain()
    figure = figure_of("tests.noop")
    assert figure.successful == 2
    assert number_of(figure.wait_buckets) == 2
    assert longest_wait(figure) < 60


def test_job_with_a_lock_waits_since_it_could_run():
    let_wait(enqueue(tasks.noop.using(lock="door")), minutes=60)
    let_wait(enqueue(tasks.noop.using(lock="door")), minutes=60)
    drain()
    figure = figure_of("tests.noop")
    assert number_of(figure.wait_buckets) == 2
    assert longest_wait(figure) < 60


def test_worker_adds_up_while_it_works():
    with running_worker() as loop:
        counted = counted_by(loop.observers).sums
        enqueue(tasks.noop)
        wait_for(
            lambda: any(each.successful for each in list(counted.values())),
            "the job is counted",
        )
        loop.upkeep["figures"].due = 0
        loop.bell.ring()
        wait_for(lambda: not counted, "the count is stored")
    assert figure_of("tests.noop").successful == 1


def test_idle_worker_stores_nothing():
    with running_worker() as loop:
        chore = loop.upkeep["figures"]
        chore.due = 0
        assert not chore.is_due(1e9)
        assert chore.next_event == float("inf")
    assert not Figure.objects.exists()


def test_failure_to_store_keeps_the_count():
    rename("ALTER TABLE pgjobs_figure RENAME TO elsewhere")
    try:
        with running_worker() as loop:
            enqueue(tasks.noop)
            chore = loop.upkeep["figures"]
            wait_for(lambda: counted_by(loop.observers).sums, "the job is counted")
            chore.due = 0
            loop.bell.ring()
            wait_for(lambda: chore.backoff.since is not None, "the chore has failed")
            rename("ALTER TABLE elsewhere RENAME TO pgjobs_figure")
        assert figure_of("tests.noop").successful == 1
    finally:
        rename("ALTER TABLE IF EXISTS elsewhere RENAME TO pgjobs_figure")


def rename(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


# Sums


def row(**columns) -> dict:
    return {
        "queue_name": "default",
        "task": "tests.noop",
        "seconds": 1.5,
        "successful": 1,
        "failed": 2,
        "cancelled": 3,
        "retried": 4,
        "run_buckets": [[3, 5], [70, 1]],
        "wait_buckets": [],
        **columns,
    }


def test_figures_of_a_minute_are_added():
    add_figures(execute_on("default"), [row()])
    more = row(run_buckets=[[3, 5], [4, 2], [70, 1]])
    add_figures(execute_on("default"), [more, row(task="tests.add")])
    figure = figure_of("tests.noop")
    assert (figure.successful, figure.failed) == (2, 4)
    assert (figure.cancelled, figure.retried) == (6, 8)
    assert figure.seconds == 3.0
    assert figure.run_buckets == [[3, 5], [70, 1], [3, 5], [4, 2], [70, 1]]
    assert figure.wait_buckets == []
    assert figure_of("tests.add").successful == 1


def test_pairs_of_a_bucket_and_a_number_are_added_up_once_there_are_many(monkeypatch):
    monkeypatch.setattr("pgjobs.features.desk.chore.MOST_PAIRS", 4)
    for _ in range(3):
        add_figures(execute_on("default"), [row(wait_buckets=[[9, 1]])])
    figure = Figure.objects.filter(task="tests.noop", span=MINUTE).latest("start")
    assert figure.run_buckets == [[3, 15], [70, 3]]
    assert figure.wait_buckets == [[9, 1], [9, 1], [9, 1]]


@pytest.mark.parametrize(
    "stored",
    ["{5,7}", "{{1},{2}}", "{{{1,2},{3,4}}}", "{{NULL,5},{3,NULL}}"],
)
@pytest.mark.parametrize("most", [1, 100])
def test_what_sql_has_stored_of_times_keeps_no_figure_back(stored, most, monkeypatch):
    monkeypatch.setattr("pgjobs.features.desk.chore.MOST_PAIRS", most)
    add_figures(execute_on("default"), [row()])
    Figure.objects.update(run_buckets=RawSQL("%s::integer[]", [stored]))
    add_figures(execute_on("default"), [row()])
    assert figure_of("tests.noop").successful == 2


def test_largest_numbers_are_added_up():
    most = 2**31 - 1
    add_figures(execute_on("default"), [row(run_buckets=[[4, most]] * 120)])
    add_figures(execute_on("default"), [row(run_buckets=[[4, 1]])])
    assert figure_of("tests.noop").run_buckets == [[4, most]]


def test_old_figures_are_pruned_by_their_span():
    add_figures(execute_on("default"), [row()])
    hour = timedelta(hours=1)
    for figure in list(Figure.objects.all()):
        for age in (1, 3):
            figure.pk, figure.start = None, timezone.now() - age * hour
            figure.save()
    assert prune_figures(execute_on("default"), 2 * 3600, 4 * 3600) == 1
    spans = Figure.objects.order_by("span").values_list("span", flat=True)
    assert list(spans) == [1, 1, 60, 60, 60]


def test_pruning_reads_no_more_than_what_is_old():
    text = statement("prune_figures")
    parameters = {"minutes": 60, "hours": 60, "limit": 10, "groups": 10}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        cursor.execute(f"EXPLAIN {text}", parameters)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert re.search(r"Index Cond: \(\(span = .*start < ", plan)


@given(st.floats(min_value=0, max_value=1e9))
def test_bucket_holds_the_duration(seconds):
    bucket = bucket_of(seconds)
    assert 0 <= bucket < MOST_BUCKETS
    assert seconds < upper_bound(bucket)
    assert bucket == 0 or seconds >= 0.999_999 * upper_bound(bucket - 1)


def test_negative_duration_counts_as_none():
    assert bucket_of(-5.0) == 0


def test_memory_is_bounded_however_many_tasks_rows_of_sql_name(monkeypatch):
    monkeypatch.setattr(counting, "MOST_ROWS", 4)
    figures = Counted()
    for name in "abcd":
        figures.begin(("q", name))
    assert set(figures.sums) == {("q", "a"), ("q", "b"), ("", "")}


def test_names_that_sql_invents_take_no_place_of_a_task_of_the_project(monkeypatch):
    monkeypatch.setattr(counting, "MOST_ROWS", 4)
    figures = Counted()
    for name in "abcd":
        figures.begin(("q", name))
    for queue in "qrst":
        figures.begin((queue, tasks.noop.name))
        figures.begin((queue, tasks.add.name))
    named = {("q", "tests.noop"), ("", "tests.noop"), ("", "tests.add")}
    assert set(figures.sums) == {("q", "a"), ("q", "b"), ("", ""), *named}
    figures.clear()
    assert figures.totals().keys() >= named
