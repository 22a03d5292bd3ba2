"""ALL: one job for each value of a parameter."""

import enum
from typing import Any, Literal

import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.db import models

import pgjobs
from pgjobs import ALL, aenqueue, enqueue, enqueue_many, task
from pgjobs.checks.tasks import check_tasks
from pgjobs.exceptions import AlreadyEnqueued, InvalidArguments, InvalidTask
from pgjobs.models import Batch, Job
from tests.features.dependencies.exports import export_data

pytestmark = pytest.mark.django_db


class Format(models.TextChoices):
    CSV = "csv", "Comma-separated"
    JSON = "json", "JSON"


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


def export(client: int, format: Format, size: Size = Size.SMALL): ...


def declare(function=export, **options):
    return task(name="tests.export", **options)(function)


def formats(jobs) -> list[tuple]:
    return [(job.kwargs["format"], job.kwargs["size"]) for job in jobs]


@pytest.mark.parametrize("all_values", [ALL, "ALL"])
def test_all_makes_a_job_for_each_value(all_values):
    jobs = enqueue(export_data, 42, all_values)
    assert [job.kwargs["format"] for job in jobs] == ["csv", "json", "parquet"]
    assert {job.kwargs["client_id"] for job in jobs} == {42}
    assert [job.pk for job in jobs] == sorted(Job.objects.values_list("pk", flat=True))


def test_without_all_there_is_one_job():
    job = enqueue(export_data, 42, format="csv")
    assert isinstance(job, Job)


@pytest.mark.parametrize(
    "names", [["size", "format"], ("format", "size"), "size, format"]
)
def test_several_parameters_make_the_cartesian_product(names):
    made = declare(write_all=names)
    product = [("csv", 1), ("csv", 2), ("json", 1), ("json", 2)]
    assert formats(made.enqueue(1, format=ALL, size=ALL)) == product
    assert formats(made.enqueue(1, ALL, ALL)) == product
    assert formats(made.enqueue(1, ALL)) == [("csv", 1), ("json", 1)]
    assert formats(made.enqueue(1, "csv", "ALL")) == [("csv", 1), ("csv", 2)]


def test_async_code_may_use_all():
    assert len(async_to_sync(aenqueue)(export_data, 1, ALL)) == 3


def test_options_apply_to_each_job():
    jobs = export_data.using(priority=9, queue_name="q").enqueue(1, ALL)
    assert {(job.priority, job.queue_name) for job in jobs} == {(9, "q")}


def test_jobs_of_all_are_one_batch():
    jobs = enqueue(export_data, 1, ALL)
    (batch,) = {job.batch for job in jobs}
    assert batch.description == "exports.export_data"
    assert batch.progress().total == 3
    given = Batch.objects.create()
    jobs = enqueue(export_data.using(batch=given), 1, ALL)
    assert {job.batch for job in jobs} == {given}
    assert enqueue(export_data, 1, "csv").batch is None


def test_number_of_values_costs_no_statement(django_assert_num_queries):
    made = declare(write_all="format,size")
    made.signature  # noqa: B018  (made on first use)
    with django_assert_num_queries(4):  # a savepoint, the batch, the jobs, its end
        made.enqueue(1, ALL, ALL)


def test_fault_in_another_argument_inserts_nothing():
    with pytest.raises(InvalidArguments, match="client_id"):
        enqueue(export_data, "x", ALL)
    assert not Job.objects.exists()
    assert not Batch.objects.exists()


@pytest.mark.parametrize("on_conflict", ["return", "skip", "raise"])
def test_each_job_of_all_is_unique_by_itself(on_conflict):
    made = declare(write_all="format", unique=True, on_conflict=on_conflict)
    first = made.enqueue(1, "json")
    if on_conflict == "raise":
        with pytest.raises(AlreadyEnqueued):
            made.enqueue(1, ALL)
        assert Job.objects.count() == 1
        return
    jobs = made.enqueue(1, ALL)
    assert Job.objects.count() == 2
    assert (first in jobs) == (on_conflict == "return")
    assert None not in jobs


# Where it is refused


def anything(value, *more: str, text: str = "", **others: Any): ...


@pytest.mark.parametrize(
    ("args", "kwargs", "name"),
    [
        ((ALL,), {}, "value"),
        ((1, ALL), {}, "more[0]"),
        ((1,), {"text": ALL}, "text"),
        ((1,), {"other": ALL}, "other"),
    ],
)
def test_all_is_refused_for_other_parameters(args, kwargs, name):
    made = declare(anything)
    with pytest.raises(
        InvalidArguments, match="is ALL, which only enqueue takes"
    ) as caught:
        made.enqueue(*args, **kwargs)
    assert set(caught.value.faults) == {name}


def test_text_all_is_a_text_where_the_parameter_takes_texts():
    made = declare(anything)
    job = made.enqueue("ALL", "ALL", text="ALL", other="ALL")
    assert job.kwargs == {"value": "ALL", "text": "ALL", "other": "ALL"}
    assert job.args == ["ALL"]
    with pytest.raises(InvalidArguments, match="valid integer"):
        enqueue(export_data, "ALL", "csv")


def test_bind_is_for_one_job():
    with pytest.raises(InvalidArguments, match="which only enqueue takes"):
        enqueue_many([export_data.bind(1, ALL)])


def many(
    a: Literal[tuple(range(30))],
    b: Literal[tuple(range(30))],
    c: Literal[tuple(range(30))],
): ...  # type: ignore


def test_more_jobs_than_any_call_should_make_are_refused():
    made = declare(many, write_all="a,b,c")
    assert len(made.enqueue(ALL, ALL, 1)) == 900
    with pytest.raises(InvalidArguments, match="27000 jobs, more than 10000"):
        made.enqueue(ALL, ALL, ALL)


# Declarations


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (5, "must be names of parameters, got 5"),
        ([5], "must be names of parameters"),
        ({"format": 1}, "must be names of parameters"),
        (["format", "format"], "names a parameter twice"),
        (["format", "colour"], "'colour' is no parameter of export"),
        ("", "'' is no parameter"),
    ],
)
def test_wrong_names_are_refused_at_the_declaration(given, says):
    with pytest.raises(InvalidTask, match=says):
        declare(write_all=given)


def test_keyword_arguments_have_no_choices():
    with pytest.raises(InvalidTask, match="'others' is no parameter of anything"):
        declare(anything, write_all="others")


def ambiguous(format: Literal["ALL", "csv"]): ...
def open_choice(client: int): ...
def optional(format: Literal["a", "b"] | None = None): ...


@pytest.mark.parametrize(
    ("function", "name", "says"),
    [
        (ambiguous, "format", "it would mean two things"),
        (open_choice, "client", "which has no choices"),
    ],
)
def test_parameter_without_choices_is_reported_by_check(function, name, says):
    declare(function, write_all=name)
    errors = [each for each in check_tasks() if says in each.msg]
    assert [each.id for each in errors] == ["pgjobs.E012"]


def test_no_value_is_none_of_the_choices():
    made = declare(optional, write_all="format")
    assert [job.kwargs["format"] for job in made.enqueue(ALL)] == ["a", "b"]


def test_command_line_prints_the_id_of_each(capsys):
    call_command(
        "enqueuejob", export_data.name, args='{"client_id": 1, "format": "ALL"}'
    )
    ids = capsys.readouterr().out.split()
    assert ids == [str(job.pk) for job in Job.objects.order_by("pk")]
    assert len(ids) == 3


def test_all_is_known_by_its_name():
    assert repr(pgjobs.ALL) == "ALL"
