"""What @task takes for chunks is checked where it is said, before a row is written."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NotRequired, TypedDict
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb
from pydantic import BaseModel, Field

from pgjobs import Chunk, Dependency, chain, enqueue, result, task
from pgjobs.exceptions import InvalidArguments, InvalidTask
from pgjobs.models import Job, Queue
from pgjobs.testing import run_jobs
from tests.actors import execute
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)
from tests.support.declared import store_definitions
from tests.tasks import add, let_go, noop

from .tasks import (
    Index,
    by_tenant,
    calls_in,
    enqueue_all,
    holding,
    index,
    patient,
)

pytestmark = shared_queue
PAST = datetime(2020, 1, 1, tzinfo=UTC)


def plain(calls: Chunk[Index]): ...


def refused(match: str, function=plain, **options) -> None:
    with pytest.raises(InvalidTask, match=match):
        task(**({"chunk": 5} | options))(function)


@pytest.mark.parametrize("value", [0, -1, 10_001, True, 2.5, "5"])
def test_chunk_is_a_number_of_jobs(value):
    refused("chunk must be a whole number between 1 and 10000", chunk=value)


@pytest.mark.parametrize(
    "options",
    [{"chunk_wait": 5}, {"chunk_by": "tenant"}, {"on_chunk_error": "bisect"}],
)
def test_other_options_need_chunk(options):
    (name,) = options
    refused(f"{name} needs chunk, which is not given", chunk=None, **options)


def test_wait_is_a_time_of_at_most_a_day():
    refused("chunk_wait must be more than 0 s", chunk_wait=0)
    refused("chunk_wait must be at most a day", chunk_wait=timedelta(days=2))
    refused("chunk_wait must be seconds or a timedelta", chunk_wait="2")


def test_chunk_by_names_arguments():
    refused(
        "chunk_by: 'client' is no argument of plain, whose jobs have path, pk, tenant",
        chunk_by="client",
    )
    refused("chunk_by must be names of arguments, got 5", chunk_by=5)
    refused("chunk_by must be names of arguments", chunk_by=("pk", 5))


def test_error_is_a_choice():
    refused("on_chunk_error must be 'fail' or 'bisect'", on_chunk_error="halve")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("lock", "door"), ("max_running", 5), ("rate", "5/minute")],
        *[("dependencies", Dependency(noop, hours=1)), ("atomic", True)],
        *[
            ("isolated", True),
            ("encrypted", True),
            ("process_units", 5),
            ("waits_for", "order.paid"),
            ("deadline", 60),
        ],
    ],
)
def test_option_of_one_job_is_refused_with_the_cure(name, value):
    refused(rf"^{name} cannot be beside chunk: .* Instead \w+", **{name: value})


@pytest.mark.parametrize(
    ("name", "value"), [("lock", "door"), ("max_running", 5), ("rate", "5/minute")]
)
def test_option_of_one_job_is_refused_where_it_is_enqueued(name, value):
    with pytest.raises(InvalidTask, match=f"{name} cannot be beside chunk"):
        index.using(**{name: value})


def test_one_crash_is_not_enough():
    refused("max_crashes must be at least 2 beside chunk", max_crashes=1)
    with pytest.raises(InvalidTask, match="max_crashes must be at least 2"):
        index.using(max_crashes=1)


@dataclass
class Unsteady:
    id: str = field(default_factory=lambda: uuid4().hex)


class Partly(TypedDict):
    name: NotRequired[str]


class Aliased(BaseModel):
    name: str = Field(alias="Name")


class Empty(BaseModel): ...


def no_hint(calls): ...
def of_what(calls: Chunk): ...
def of_numbers(calls: Chunk[int]): ...
def of_lists(calls: list[Index]): ...
def of_two(calls: Chunk[Index], more: int): ...
def of_none(): ...
def of_unsteady(calls: Chunk[Unsteady]): ...
def of_partly(calls: Chunk[Partly]): ...
def of_aliased(calls: Chunk[Aliased]): ...
def of_empty(calls: Chunk[Empty]): ...
def of_unknown(calls: "Chunk[Unknown]"): ...  # noqa: F821


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (no_hint, r"no_hint: calls takes a chunk, but its hint is .*Chunk\[Args\]"),
        (of_what, r"its hint is .*Chunk"),
        (of_numbers, r"hint it Chunk\[Args\]"),
        (of_lists, r"hint it Chunk\[Args\]"),
        (of_two, "it has one parameter, and not calls, more"),
        (of_none, "it has one parameter, and not none"),
        (of_unsteady, "the default of id differs each time, so pass its value"),
        (of_partly, r"name may be missing, so say `name: ... \| None`"),
        (of_aliased, "name has an alias"),
        (of_empty, "Empty has no fields"),
        (of_unknown, "a type hint cannot be resolved"),
    ],
)
def test_function_takes_one_chunk(function, match):
    refused(match, function)


def test_chunk_cannot_be_changed_for_one_job():
    with pytest.raises(InvalidTask, match=r"say @task\(chunk=...\)"):
        index.using(chunk=5)


def test_key_of_a_chunk_takes_no_result_of_a_job_before():
    with pytest.raises(InvalidArguments, match="chunk_by is made of it"):
        enqueue(chain(add.bind(1), by_tenant.bind(path="x", pk=1, tenant=result)))
    assert not Job.objects.exists()


def test_member_gets_the_result_of_a_job_before_it(path):
    enqueue(chain(add.bind(1), by_tenant.bind(path=path, pk=result)))
    run_jobs()
    assert calls_in(path) == [[2]]


# Where a member comes from


def test_member_that_sql_enqueues_has_its_wait_and_its_key(path):
    store_definitions()
    for number in (1, 2):
        arguments = f'{{"path": "{path}", "pk": {number}}}'
        execute("SELECT pgjobs_enqueue('tests.chunks.patient', %s::jsonb)", [arguments])
        execute(
            "SELECT pgjobs_enqueue('tests.chunks.by_tenant', %s::jsonb)", [arguments]
        )
    waiting = Job.objects.filter(task=patient.name)
    assert {job.status for job in waiting} == {"SCHEDULED"}
    assert {(job.run_after - job.enqueued_at).seconds for job in waiting} == {30}
    drain()
    assert sorted(calls_in(path)) == [[1, 2], [1, 2]]


def test_time_of_a_job_of_its_own_is_not_cut_short(path):
    enqueue(patient, path=path, pk=1)
    enqueue(patient.using(run_after=timedelta(hours=1)), path=path, pk=2)
    enqueue(index.using(run_after=timedelta(hours=1)), path=path, pk=3)
    enqueue(index, path=path, pk=4)
    drain()
    assert sorted(calls_in(path)) == [[1], [4]]


def test_wait_is_over_in_time_and_those_who_wait_come_along(path):
    enqueue(patient, path=path, pk=1)
    Job.objects.update(run_after=PAST)
    enqueue(patient, path=path, pk=2)
    with running_worker():
        wait_for(lambda: not Job.objects.exclude(status="SUCCESSFUL").exists())
    assert calls_in(path) == [[1, 2]]


@pytest.mark.parametrize(
    ("keys", "dependencies"),
    [
        ({"lock": "one"}, None),
        ({"limit_key": "one", "max_running": 1}, None),
        ({"rate_key": "one", "rate_interval": 60, "rate_burst": 1}, None),
        ({}, {"needs": [{"key": "one", "within": 0}], "provides": []}),
    ],
)
def test_member_that_sql_has_given_an_obstacle_does_not_come_along(
    keys,
    dependencies,
    path,
):
    insert = """
        INSERT INTO pgjobs_job (task, kwargs, keys, dependencies)
        VALUES ('tests.chunks.patient', %s, %s, %s)
    """
    of_task = {"chunk_by": [], "chunk_wait": 30}
    enqueue(patient, path=path, pk=1)
    arguments = Jsonb({"path": path, "pk": 2, "tenant": 0})
    execute(
        insert, [arguments, Jsonb(of_task | keys), dependencies and Jsonb(dependencies)]
    )
    first, second = Job.objects.order_by("pk")
    assert {first.status, second.status} == {"SCHEDULED"}
    Job.objects.filter(pk=first.pk).update(run_after=PAST)
    with running_worker():
        wait_for_status(first, "SUCCESSFUL")
    assert calls_in(path) == [[1]]


def test_member_to_which_sql_has_given_units_does_not_come_along(path):
    enqueue_all(index, path, [1, 2, 3])
    Job.objects.filter(kwargs__pk=2).update(process_units=5)
    drain(slots=1)
    assert calls_in(path) == [[1, 3], [2]]


def test_limit_of_a_queue_counts_calls(path):
    Queue.objects.create(name="narrow", max_running=2)
    enqueue_all(holding.using(queue_name="narrow"), path, range(30))
    with running_worker(slots=4):
        wait_for(lambda: len(calls_in(path)) == 2)
        assert Job.objects.running().count() == 20
        let_go(path + ".go")
        wait_for(lambda: not Job.objects.exclude(status="SUCCESSFUL").exists())
    assert [len(call) for call in calls_in(path)] == [10, 10, 10]
