"""The role of dashboards sees what stands still, and no key: it may hold a secret."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from pgjobs import enqueue_many, task
from pgjobs.models import Job
from tests.actors import Hand, admit, execute, session
from tests.features.roles.test_roles import (  # noqa: F401
    PASSWORD,
    all_roles,
    connected_as,
    role_of,
)
from tests.processes import shared_queue

pytestmark = shared_queue

TOKEN = "tok_7c1f3a9e55d0"
LATE = timedelta(hours=1)


@task(name="watched.locked", lock="{token}", sensitive=("token",))
def locked(token: str): ...


@task(name="watched.limited", limit_key="{token}", max_running=1)
def limited(token: str): ...


@task(name="watched.paced", rate="1/hour", rate_key="{token}")
def paced(token: str): ...


@pytest.fixture
def waiting():
    """Jobs that wait for a lock, a limit and a rate; their worker does nothing."""
    Hand(started_at=timezone.now() - LATE)
    enqueue_many([each.bind(TOKEN) for each in (locked, limited, paced)] * 3)
    admit()


def test_role_learns_what_jobs_wait_for_and_no_key(waiting):
    with connected_as("dashboard"):
        output = StringIO()
        call_command("jobstatus", json=True, stdout=output)
    assert TOKEN not in output.getvalue()
    found = json.loads(output.getvalue())["waiting"]
    assert {(each["kind"], each["key"]) for each in found} == {
        ("lock", ""),
        ("limit", ""),
        ("rate", ""),
    }


COLUMNS = """
SELECT table_name, column_name FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name LIKE 'pgjobs%%'
    AND has_column_privilege(
        %(role)s, table_name::text, column_name, 'SELECT'
    )
"""


def test_role_may_read_no_key_anywhere(waiting):
    columns = execute(COLUMNS, {"role": role_of("dashboard")})
    assert len(columns) > 100
    with session(user=role_of("dashboard"), password=PASSWORD) as other:
        for table, column in columns:
            rows = other.execute(f'SELECT "{column}"::text FROM {table}')
            assert TOKEN not in str(rows), (table, column)


def test_role_is_told_of_lines_that_stand_still(waiting):
    Job.objects.filter(status="READY").update(queue_name="slow")
    execute("UPDATE pgjobs_worker SET excluded = 'slow'")
    execute("UPDATE pgjobs_job SET enqueued_at = enqueued_at - interval '1 hour'")
    with connected_as("dashboard"), pytest.raises(CommandError) as raised:
        call_command("jobstatus", check=True)
    assert "A line stands still" in str(raised.value)
    assert TOKEN not in str(raised.value)


def test_role_is_told_of_jobs_that_no_worker_admits():
    Hand(started_at=timezone.now() - LATE)
    locked.enqueue(TOKEN)
    execute("UPDATE pgjobs_job SET enqueued_at = enqueued_at - interval '1 hour'")
    with (
        connected_as("dashboard"),
        pytest.raises(CommandError, match="1 job waits to be admitted"),
    ):
        call_command("jobstatus", check=True)


def test_role_reads_the_same_numbers_as_the_owner(waiting):
    def status() -> dict:
        output = StringIO()
        call_command("jobstatus", json=True, stdout=output)
        found = json.loads(output.getvalue())
        return {
            "queues": [each | {"oldest_ready_seconds": 0} for each in found["queues"]],
            "waiting": [each | {"key": ""} for each in found["waiting"]],
        }

    with connected_as("dashboard"):
        seen = status()
    assert seen == status()
    assert len(seen["waiting"]) == 3
