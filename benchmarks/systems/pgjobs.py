"""pgjobs itself, in an ordinary Django project."""

import os
import sys

import django

from benchmarks.adapter import OPTIONS

os.environ["DJANGO_SETTINGS_MODULE"] = OPTIONS.get(
    "project", "benchmarks.project.settings"
)
django.setup()

from django.core.management import call_command
from django.db import connection

import pgjobs
from benchmarks.project.tasks import TASKS
from benchmarks.server import privileged

# In words that the planner finds the partial indexes by.
UNFINISHED = """
SELECT (SELECT count(*) FROM pgjobs_job WHERE status = 'READY')
     + (SELECT count(*) FROM pgjobs_job WHERE status = 'RUNNING')
"""
FILL = {
    "finished": """
        INSERT INTO pgjobs_job (task, kwargs, status, attempts, lease_token,
                                started_at, last_attempted_at, finished_at)
        SELECT %s, '{"number": 1}', 'SUCCESSFUL', 1,
               nextval('pgjobs_lease_token'), now(), now(), now()
        FROM generate_series(1, %s)
    """,
    "scheduled": """
        INSERT INTO pgjobs_job (task, kwargs, run_after)
        SELECT %s, '{"number": 1}', now() + interval '1 day'
        FROM generate_series(1, %s)
    """,
    # A hundred jobs for each lock. The first one is due in a day, and the others are
    # where an admission would have put them.
    "waiting": """
        INSERT INTO pgjobs_job
            (task, kwargs, keys, status, run_after, waiting_for, line)
        SELECT %s, '{"number": 1}', jsonb_build_object('lock', lock),
            CASE WHEN is_first THEN 'SCHEDULED' ELSE 'WAITING' END,
            CASE WHEN is_first THEN now() + interval '1 day' END,
            CASE WHEN NOT is_first THEN 'lock' END,
            CASE WHEN NOT is_first THEN 'lock ' || lock END
        FROM generate_series(0, %s - 1) AS number
        CROSS JOIN LATERAL (
            SELECT number %% 100 = 0, 'lock ' || number / 100
        ) AS place (is_first, lock)
    """,
    "ready": """
        INSERT INTO pgjobs_job (task, kwargs)
        SELECT %s, '{"number": 1}' FROM generate_series(1, %s)
    """,
}


def setup():
    call_command("migrate", verbosity=0)


def enqueue(task, number):
    pgjobs.enqueue(TASKS[task], number)


def enqueue_many(task, numbers):
    pgjobs.enqueue_many([TASKS[task].bind(number) for number in numbers])


def unfinished():
    with connection.cursor() as cursor:
        cursor.execute(UNFINISHED)
        return cursor.fetchone()[0]


def fill(status, number):
    with privileged() as server:
        # A trigger would send waiting jobs back to be admitted. Only a superuser can
        # switch it off.
        if status == "waiting":
            server.execute("SET session_replication_role = replica")
        server.execute(FILL[status], [TASKS["noop"].name, number])


def work():
    command = [sys.executable, "-m", "django", "runjobs", "--verbosity", "0"]
    os.execv(sys.executable, command + OPTIONS["arguments"])
