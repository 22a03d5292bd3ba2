"""The flat value of an INSERT, and the table of columns that its statements follow."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.db.models import NOT_PROVIDED
from django.utils import timezone
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

import pgjobs
from pgjobs.models import Job
from pgjobs.queue.new_job import (
    OF_TABLE,
    STORED,
    NewJob,
    parameters_of,
    parameters_of_one,
)
from pgjobs.sql import statement_of
from pgjobs.sql.columns import COLUMNS, VALUES
from pgjobs.tasks.options import Options
from tests.tasks import add, noop

HERE = Path(pgjobs.__file__).parent
INSERTS = ["enqueue", "enqueue_one", "enqueue_unique"]


def whole(name: str) -> str:
    """Return a statement with all columns that it may name."""
    return statement_of(name, tuple(VALUES))


def parameters_in(name: str) -> set[str]:
    return set(re.findall(r"%\((\w+)\)s", whole(name)))


def test_first_fields_of_a_new_job_are_the_columns_that_it_fills_itself():
    assert NewJob._fields[: len(STORED)] == STORED
    columns = {field.column for field in Job._meta.concrete_fields}
    assert set(STORED) <= columns


def test_new_job_without_options_has_the_defaults_of_a_task():
    assert (
        Options().columns.items() <= NewJob("tests.add", "[]", "{}")._asdict().items()
    )


def test_new_job_without_options_has_the_defaults_of_the_table():
    new_job = NewJob("tests.add", "[]", "{}")
    for name in ("queue_name", "priority", "max_attempts", "max_crashes"):
        assert getattr(new_job, name) == Job._meta.get_field(name).db_default


@pytest.mark.parametrize("name", [*INSERTS, "replace"])
def test_statement_has_no_parameter_that_a_new_job_lacks(name):
    assert parameters_in(name) <= set(NewJob._fields)


@pytest.mark.parametrize("name", INSERTS)
def test_statement_takes_every_column_of_the_table(name):
    assert {column.name for column in COLUMNS} <= parameters_in(name)


def test_inserts_of_jobs_take_their_lists_from_the_table_of_columns():
    lists = {
        path.stem: columns
        for path in HERE.rglob("*.sql")
        for columns in re.findall(r"INTO pgjobs_job\s*\((.*?)\)", path.read_text())
    }
    # The job that cannot be enqueued as its task demands has the defaults of the table.
    assert lists.pop("enqueue_refused") == "task, kwargs, meta"
    assert {"enqueue", "insert", "deliver"} < lists.keys()
    assert all("columns" in columns for columns in lists.values())


@pytest.mark.parametrize("name", [*INSERTS, "replace"])
def test_driver_need_not_parse_the_statement_each_time(name):
    assert len(whole(name)) <= MAX_CACHED_STATEMENT_LENGTH


def test_values_that_all_jobs_share_are_sent_once_and_nulls_not_at_all():
    sent = parameters_of([add.bind(each, 1).new_job for each in (1, 2, 3)])
    assert sent["task"] == ["tests.add"]
    assert sent["priority"] == [0]
    assert len(sent["kwargs"]) == 3
    assert sent["timeout"] is sent["run_after"] is sent["keys"] is None


def test_values_that_differ_are_all_sent_in_order():
    jobs = [add.bind(1, 1), noop.using(priority=5, timeout=9, lock="x").bind()]
    sent = parameters_of([each.new_job for each in jobs])
    assert sent["task"] == ["tests.add", "tests.noop"]
    assert sent["priority"] == [0, 5]
    assert sent["timeout"] == [None, 9.0]
    assert sent["keys"] == '[null,{"lock":"x","is_ordered":true}]'


def test_single_job_is_sent_without_arrays():
    sent = parameters_of_one(noop.using(priority=5, lock="x").bind().new_job)
    assert (sent["task"], sent["priority"]) == ("tests.noop", 5)
    assert sent["keys"] == '[{"lock":"x","is_ordered":true}]'
    assert sent.keys() == {"task", "kwargs", "priority", "keep", "keys"}


def test_single_job_names_no_column_that_it_leaves_to_the_table():
    sent = parameters_of_one(noop.bind().new_job)
    assert sent == {"task": "tests.noop", "kwargs": "{}", "keep": None}
    text = statement_of("enqueue_one", tuple(sent))
    assert "INSERT INTO pgjobs_job (task, kwargs, keep)" in text
    assert parameters_in("enqueue_one") > sent.keys()


def test_what_a_single_job_leaves_out_is_what_the_table_has():
    given = dict(zip(STORED, OF_TABLE, strict=False))
    assert given.pop("task") == given.pop("kwargs") == ""
    assert given.pop("args") == "[]"
    for name, value in given.items():
        default = Job._meta.get_field(name).db_default
        assert value == (None if default is NOT_PROVIDED else default), name


def test_single_job_with_every_option_has_all_of_them(db):
    later = timezone.now() + timedelta(days=1)
    options = {"priority": 7, "max_attempts": 9, "max_crashes": 8, "timeout": 5.0}
    options |= {"queue_name": "mail", "keep": "failed", "run_after": later}
    options |= {"expires": timedelta(hours=1), "lock": "x"}
    job = noop.using(**options).enqueue()
    stored = Job.objects.get(pk=job.pk)
    assert stored.run_after == job.run_after == later
    assert stored.expires_at == job.expires_at == later + timedelta(hours=1)
    for name in ("priority", "max_attempts", "max_crashes", "timeout", "queue_name"):
        assert getattr(stored, name) == getattr(job, name) == options[name]
    assert (stored.keep, stored.status) == ("failed", "SCHEDULED")
    assert stored.keys["lock"] == "x"
