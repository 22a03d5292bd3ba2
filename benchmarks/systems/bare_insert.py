"""The bare INSERT with the same triggers: into the table of pgjobs, without pgjobs.

What `enqueue` is measured by: the same indexes, constraints and triggers, but no
Django, no signature and no arguments to check. One statement and its own commit.
"""

import os

import psycopg

from benchmarks.systems.pgjobs import TASKS, setup

__all__ = ["enqueue", "enqueue_many", "setup"]
ENQUEUE = """
INSERT INTO pgjobs_job (task, kwargs)
VALUES (%s, jsonb_build_object('number', %s::int)) RETURNING id
"""
ENQUEUE_MANY = """
INSERT INTO pgjobs_job (task, kwargs)
SELECT %s, jsonb_build_object('number', number)
FROM unnest(%s::int[]) AS number RETURNING id
"""
connection = psycopg.connect(
    os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=0
)


def enqueue(task, number):
    connection.execute(ENQUEUE, [TASKS[task].name, number]).fetchone()


def enqueue_many(task, numbers):
    parameters = [TASKS[task].name, list(numbers)]
    connection.execute(ENQUEUE_MANY, parameters).fetchall()
