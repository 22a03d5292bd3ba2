"""Taking over what django-tasks-db has queued."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from pgjobs.models import Job
from tests.actors import execute, session
from tests.processes import drain
from tests.standard import default_task_backend, tasks

TABLE = """
CREATE TABLE django_tasks_database_dbtaskresult (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    status varchar(10) NOT NULL DEFAULT 'READY',
    enqueued_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at timestamptz,
    finished_at timestamptz,
    args_kwargs jsonb NOT NULL,
    priority integer NOT NULL DEFAULT 0,
    task_path text NOT NULL,
    worker_ids jsonb NOT NULL DEFAULT '[]',
    queue_name varchar(32) NOT NULL DEFAULT 'default',
    backend_name varchar(32) NOT NULL DEFAULT 'default',
    run_after timestamptz NOT NULL DEFAULT '9999-01-01 00:00+00',
    return_value jsonb,
    exception_class_path text NOT NULL DEFAULT '',
    traceback text NOT NULL DEFAULT ''
)
"""
INSERT = """
INSERT INTO django_tasks_database_dbtaskresult (task_path, args_kwargs, {columns})
VALUES (%(path)s, '{{"args": [1], "kwargs": {{"b": 2}}}}', {values}) RETURNING id
"""
ADD = "tests.standard_tasks.add"


@pytest.fixture(autouse=True)
def table(transactional_db):
    execute(TABLE)
    yield
    execute("DROP TABLE django_tasks_database_dbtaskresult")


def queue(path: str = ADD, **columns) -> None:
    columns = {"status": "READY", **columns}
    text = INSERT.format(
        columns=", ".join(columns),
        values=", ".join(f"%({name})s" for name in columns),
    )
    execute(text, {"path": path, **columns})


def left() -> int:
    return execute("SELECT count(*) FROM django_tasks_database_dbtaskresult")[0][0]


def import_tasks(*arguments) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("importtasks", "django-tasks-db", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_queued_tasks_become_jobs():
    queue(priority=5, queue_name="mail")
    assert import_tasks() == ("Imported 1 task.\n", "")
    job = Job.objects.get()
    assert job.task == f"default:{ADD}"
    assert (job.args, job.kwargs) == ([1], {"b": 2})
    assert (job.priority, job.queue_name, job.status) == (5, "mail", "READY")
    assert left() == 0
    drain()
    assert default_task_backend.get_result(str(job.pk)).return_value == 3


def test_time_is_kept():
    queue(run_after="2099-01-01 00:00+00")
    import_tasks()
    assert Job.objects.get().run_after.year == 2099


def test_order_is_kept():
    for number in (2, 0, 1):
        queue(priority=number, enqueued_at=f"2026-01-0{number + 1} 00:00+00")
    import_tasks()
    jobs = Job.objects.order_by("pk").values_list("priority", flat=True)
    assert list(jobs) == [0, 1, 2]


def test_tasks_are_imported_once():
    queue()
    import_tasks()
    assert import_tasks() == ("Imported 0 tasks.\n", "")
    assert Job.objects.count() == 1


def test_rehearsal_changes_nothing():
    queue()
    assert import_tasks("--dry-run") == ("Would import 1 task.\n", "")
    assert (left(), Job.objects.count()) == (1, 0)


@pytest.mark.parametrize("status", ["RUNNING", "SUCCESSFUL", "FAILED"])
def test_what_its_workers_have_begun_is_left_to_them(status):
    queue(status=status)
    assert import_tasks()[0] == "Imported 0 tasks.\n"
    assert left() == 1


def test_what_its_worker_claims_at_the_moment_is_left_to_it():
    queue()
    with session() as worker:
        worker.begin()
        worker.execute("SELECT FROM django_tasks_database_dbtaskresult FOR UPDATE")
        assert import_tasks()[0] == "Imported 0 tasks.\n"
        worker.rollback()
    assert import_tasks()[0] == "Imported 1 task.\n"


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"path": "tests.standard_tasks.gone"}, "there is no such task"),
        ({"path": "antigravity.fly"}, "there is no such task"),
        ({"backend_name": "other"}, "TASKS has no 'other'"),
        ({"queue_name": "a,b"}, "queue_name"),
    ],
)
def test_task_that_cannot_run_stays_where_it_is(columns, reason):
    queue(**columns)
    queue()
    out, err = import_tasks()
    assert out == "Imported 1 task.\n"
    assert "Left 1 where they are" in err
    assert reason in err
    assert left() == 1


def test_task_of_another_backend_stays_where_it_is(use, settings):
    use()
    path = f"{tasks.__name__}.backends.dummy.DummyBackend"
    settings.TASKS = {**settings.TASKS, "dummy": {"BACKEND": path}}
    queue(backend_name="dummy")
    assert "another backend" in import_tasks()[1]


def test_many_tasks_are_imported_in_batches(monkeypatch):
    monkeypatch.setattr("pgjobs.features.importing.taking.BATCH", 2)
    for _ in range(5):
        queue()
    assert import_tasks()[0] == "Imported 5 tasks.\n"
    assert left() == 0


def test_missing_table_is_explained():
    execute("ALTER TABLE django_tasks_database_dbtaskresult RENAME TO elsewhere")
    try:
        with pytest.raises(CommandError, match="Both must share a database"):
            import_tasks()
    finally:
        with connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE elsewhere RENAME TO django_tasks_database_dbtaskresult"
            )
