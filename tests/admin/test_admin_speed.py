"""Each page reads as much of a large table as of a small one, by as many statements."""

import json

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks import desk
from pgjobs.admin import filters, listing, tabs
from pgjobs.features.desk import errors
from pgjobs.reports import job_filters, newest, status
from tests.actors import leave_out_triggers

pytestmark = pytest.mark.django_db

FEW, MANY = 20_000, 200_000
FULL = 60  # rows; each list of the few jobs is so long, also that of an error
# Instead of 10,000 and 100,000 rows, which all of these jobs would be.
LIMITS = (
    (filters, "LOOKED_AT_BY_NAME"),
    (filters, "LOOKED_AT_BY_END"),
    (filters, "MOST_FOUND"),
    (job_filters, "LOOKED_AT"),
    (job_filters, "MOST_FOUND"),
    (newest, "MOST_FOUND"),
    (listing, "COUNTED"),
    (status, "MOST_COUNTED"),
    (tabs, "MOST_COUNTED"),
    (errors, "LOOKED_AT"),
)
# Page 200 of so short a list is none.
LEFT_OUT = ("list, page 200",)
# Lists that do not have the jobs which are newer than all that ended.
ENDED = ("SUCCESSFUL", "FAILED", "CANCELLED", "ended=", "error=", "group=")


@pytest.fixture
def small_limits(monkeypatch):
    for module, name in LIMITS:
        monkeypatch.setattr(module, name, FULL)
    monkeypatch.setattr(
        "pgjobs.features.desk.errors.MOST_COUNTED", 1
    )  # of each of 50 groups


def execute(text, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        return cursor.fetchall() if cursor.description else []


def blocks_of(sql: str) -> int:
    """Run a statement again and return how many blocks of 8 kB it touched."""
    with connection.cursor() as cursor:
        if sql.startswith("SET LOCAL"):  # of the statements that follow
            cursor.execute(sql)
            return 0
        cursor.execute("SET LOCAL jit = off")
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}")
        ((found,),) = cursor.fetchall()
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


def look(client, address: str) -> tuple[int, int]:
    """Return how many statements a page runs, and how many blocks they touch."""
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200, address
    texts = [each["sql"] for each in captured.captured_queries]
    repeated = [each for each in texts if "pgjobs_" in each or "SET LOCAL" in each]
    return len(texts), sum(map(blocks_of, repeated))


@pytest.mark.slow
def test_pages_read_no_more_of_a_large_table(small_limits):
    client = Client()
    client.force_login(User.objects.create_superuser("desk"))
    leave_out_triggers("pgjobs_job")
    desk.insert_jobs(execute, FEW)
    execute(desk.ATTEMPTS)
    execute(desk.OTHERS)
    execute("ANALYZE")
    addresses = {k: v for k, v in desk.pages(execute) if k not in LEFT_OUT}
    small = {name: look(client, each) for name, each in addresses.items()}
    # Older ones: the newest stay as they are.
    execute(OLDER, {"number": MANY})
    execute("ANALYZE")
    large = {name: look(client, each) for name, each in addresses.items()}
    assert_as_small(large, small)
    execute(NEWER, {"number": MANY})
    execute("ANALYZE")
    of_ended = {k: v for k, v in addresses.items() if any(each in v for each in ENDED)}
    larger = {name: look(client, each) for name, each in of_ended.items()}
    assert_as_small(larger, {name: small[name] for name in of_ended})


def assert_as_small(large: dict, small: dict) -> None:
    """Assert that pages run no more statements, and hardly touch more blocks."""
    grown = {
        name: (small[name], large[name])
        for name in small
        if large[name][0] > small[name][0] or large[name][1] > 2 * small[name][1] + 400
    }
    assert not grown, "\n".join(f"{name}: {each}" for name, each in grown.items())


OLDER = """
INSERT INTO pgjobs_job (
    id, turn, task, queue_name, status, kwargs, reason, enqueued_at, started_at,
    last_attempted_at, finished_at, attempts, failures, error_group
)
SELECT -i, 0, 'shop.task_' || 1 + i %% 49, 'queue_' || i %% 20, each.status, '{}',
    'Old.', at, at, at, at, 1, (each.status = 'FAILED')::int,
    CASE each.status WHEN 'FAILED' THEN i %% 350 END
FROM generate_series(1, %(number)s) AS i
CROSS JOIN LATERAL (
    SELECT CASE i %% 5 WHEN 0 THEN 'FAILED' ELSE 'SUCCESSFUL' END,
        now() - interval '30 days' - i * interval '1 s'
) AS each (status, at)
"""
NEWER = """
INSERT INTO pgjobs_job (id, turn, task, queue_name, status, enqueued_at)
SELECT newest.id + i, newest.id + i, 'shop.task_' || i %% 50, 'queue_' || i %% 20,
    'READY', now()
FROM (SELECT max(id) AS id FROM pgjobs_job) AS newest,
    generate_series(1, %(number)s) AS i
"""
