"""Enqueueing in a project that is not set up for it: the message names the cure."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection

from pgjobs import enqueue, enqueue_many
from tests import tasks

PROJECT = """
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="x", INSTALLED_APPS={apps}, DATABASES={{
        "default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
    }}
)
django.setup()

from pgjobs import enqueue, task

namespace = {{"__name__": "shop.tasks", "task": task}}
exec("@task(unique={unique})\\ndef send(number: int): pass", namespace)
try:
    enqueue(namespace["send"], 5)
except Exception as error:
    print(type(error).__name__, error)
"""


def said(**project) -> str:
    run = subprocess.run(
        [sys.executable, "-c", PROJECT.format(**project)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("unique", [False, True])
def test_database_that_is_no_postgresql_is_named(unique):
    assert said(apps=["pgjobs"], unique=unique) == (
        "ImproperlyConfigured Jobs need PostgreSQL, but DATABASES['default'] uses "
        "SQLite. Change that, or name the alias of a PostgreSQL database in "
        "PGJOBS['DATABASE']."
    )


def test_missing_app_is_named():
    assert said(apps=[], unique=False) == (
        "ImproperlyConfigured 'pgjobs' is missing in INSTALLED_APPS. Add it, and run "
        "'manage.py migrate pgjobs'."
    )


@pytest.mark.django_db
@pytest.mark.parametrize(
    "enqueueing",
    [
        lambda: enqueue(tasks.noop),
        lambda: enqueue(tasks.noop.using(unique=True)),
        lambda: enqueue_many([tasks.noop.bind(), tasks.noop.bind()]),
    ],
)
def test_missing_tables_are_named_with_the_command_that_makes_them(enqueueing):
    check_that_they_are_named(enqueueing)


def check_that_they_are_named(enqueueing: Callable[[], object]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE pgjobs_job RENAME TO something_else")
    with pytest.raises(
        ImproperlyConfigured,
        match=r"'default' has no queue.*Run 'manage.py migrate pgjobs --database",
    ) as refused:
        enqueueing()
    assert isinstance(refused.value.__cause__, DatabaseError)


@pytest.mark.django_db
def test_other_errors_of_the_database_stay_as_they_are():
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE pgjobs_job ADD CHECK (task <> 'tests.noop')")
    with pytest.raises(DatabaseError, match="violates check constraint"):
        enqueue(tasks.noop)
