"""The flat value of an INSERT, and the table of columns that its statements follow."""

import re
from pathlib import Path

import pytest
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

import pgjobs
from pgjobs.models import Job
from pgjobs.queue.new_job import STORED, NewJob, parameters_of, parameters_of_one
from pgjobs.sql import statement
from pgjobs.sql.columns import COLUMNS
from pgjobs.tasks.options import Options
from tests.tasks import add, noop

HERE = Path(pgjobs.__file__).parent
INSERTS = ["enqueue", "enqueue_one", "enqueue_unique"]


def parameters_in(name: str) -> set[str]:
    return set(re.findall(r"%\((\w+)\)s", statement(name)))


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
    assert len(statement(name)) <= MAX_CACHED_STATEMENT_LENGTH


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
