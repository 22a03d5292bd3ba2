"""A database that has used up its block draws ids of another: a problem before."""

import json

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from pgjobs.features.moving.id_blocks import NUMBERED, SIZE, begin_block, block_of
from pgjobs.reports.status import overview
from tests import harness
from tests.databases.test_commands import run

pytestmark = pytest.mark.django_db(databases=["default", "eu"])
LIMIT = SIZE * 9 // 10


@pytest.fixture
def block() -> int:
    """Return the number of a block of which "eu" has used nothing yet."""
    number = block_of("eu") + 1
    begin_block("eu", number)
    return number


@pytest.fixture(autouse=True)
def fresh_block_afterwards(two_databases):
    """Let the next test begin with a new block: sequences do not roll back."""
    yield
    begin_block("eu", block_of("eu") + 1)


def use(block: int, ids: int, table: str = "pgjobs_job") -> None:
    """Let the last id of a table of "eu" be so far in the block."""
    with connections["eu"].cursor() as cursor:
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)",
            [table, block * SIZE + ids],
        )


@pytest.mark.parametrize("table", NUMBERED)
def test_database_that_has_used_nine_tenths_of_its_block_is_a_problem(block, table):
    use(block, LIMIT - 1, table)
    assert overview("eu").problems == []
    use(block, LIMIT, table)
    (problem,) = overview("eu").problems
    assert problem == (
        f"This database has used 90 % of the ids of block {block}. Those that follow "
        "may be ids of another database. Give it a higher block that no database has "
        "or had: manage.py shardids --database eu --block N."
    )
    assert overview("default").problems == []


def test_each_form_of_jobstatus_names_the_problem(block):
    use(block, LIMIT)
    named = f"used 90 % of the ids of block {block}"
    assert named in run("jobstatus", database="eu")
    (problem,) = json.loads(run("jobstatus", database="eu", json=True))["problems"]
    assert named in problem
    with pytest.raises(CommandError, match=f"^eu: This database has {named}") as caught:
        run("jobstatus", database="all", check=True)
    assert caught.value.returncode == 1


def test_another_block_solves_the_problem(block):
    use(block, LIMIT)
    call_command("shardids", database="eu", block=block + 5, verbosity=0)
    assert overview("eu").problems == []
    use(block + 5, LIMIT)
    assert f"of block {block + 5}." in overview("eu").problems[0]


def test_table_that_is_beyond_the_end_of_the_block_stays_a_problem(block):
    """Its ids begin another block, of which it has used little."""
    use(block + 1, 5)
    (problem,) = overview("eu").problems
    assert f"has used 100 % of the ids of block {block}." in problem


@override_settings(PGJOBS={"DATABASE": "eu"})
def test_only_database_of_a_project_needs_no_blocks(block):
    use(block, LIMIT)
    with CaptureQueriesContext(connections["eu"]) as queries:
        assert overview("eu").problems == []
    assert len(queries) > 0
    assert not any("AS sequence" in each["sql"] for each in queries)


@pytest.fixture(scope="module")
def blind():
    with harness.role("blind") as name:
        yield name


def test_role_sees_the_problem_of_the_sequences_that_it_may_read(blind, block):
    with connections["eu"].cursor() as cursor:
        cursor.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {blind}")
        use(block, LIMIT)
        cursor.execute(f"SET LOCAL ROLE {blind}")
        assert overview("eu").problems == []
        cursor.execute("RESET ROLE")
        cursor.execute(f"GRANT SELECT ON SEQUENCE pgjobs_job_id_seq TO {blind}")
        cursor.execute(f"SET LOCAL ROLE {blind}")
        (problem,) = overview("eu").problems
        cursor.execute("RESET ROLE")
    assert f"has used 90 % of the ids of block {block}." in problem
