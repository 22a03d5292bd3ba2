"""A row of another queue that cannot be read stays there, and the others are taken."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from pgjobs.features.importing import (
    command,
    django_celery_beat,
    django_q2,
    procrastinate,
)
from pgjobs.models import AuditEntry, Job, Schedule
from tests.actors import execute
from tests.tasks import noop

pytestmark = pytest.mark.django_db

PROCRASTINATE = """
CREATE TEMP TABLE procrastinate_jobs (
    id bigserial, task_name text, args jsonb, queue_name text DEFAULT 'default',
    priority integer DEFAULT 0, scheduled_at timestamptz, lock text,
    queueing_lock text, status text DEFAULT 'todo'
)
"""
BEAT = """
CREATE TEMP TABLE django_celery_beat_intervalschedule (
    id serial, every integer, period text
);
CREATE TEMP TABLE django_celery_beat_crontabschedule (
    id serial, minute text, hour text, day_of_month text, month_of_year text,
    day_of_week text, timezone text
);
CREATE TEMP TABLE django_celery_beat_periodictasks (
    ident smallint PRIMARY KEY, last_update timestamptz
);
CREATE TEMP TABLE django_celery_beat_periodictask (
    id serial, name text, task text DEFAULT 'tests.noop', args text, kwargs text,
    start_time timestamptz, expires timestamptz, one_off boolean DEFAULT false,
    interval_id integer, crontab_id integer, enabled boolean DEFAULT true,
    last_run_at timestamptz, queue text, exchange text, routing_key text,
    priority integer, headers text DEFAULT '{}', expire_seconds integer
);
INSERT INTO django_celery_beat_intervalschedule (every, period)
VALUES (1, 'hours'), (1, 'centuries'), (2147483647, 'days'), (0, 'days');
INSERT INTO django_celery_beat_crontabschedule
    (minute, hour, day_of_month, month_of_year, day_of_week, timezone)
VALUES ('61', '*', '*', '*', '*', 'UTC'), ('1', '*', '*', '*', '*', 'Mars/Olympus')
"""
Q2 = """
CREATE TEMP TABLE django_q_schedule (
    id bigserial, name text, func text DEFAULT 'tests.tasks.noop', args text,
    kwargs text, schedule_type text DEFAULT 'H', minutes integer, cron text,
    next_run timestamptz DEFAULT now(), repeats integer DEFAULT -1, hook text,
    intended_date_kwarg text, cluster text
);
CREATE TEMP TABLE django_q_ormq (
    id bigserial, key text, payload text, lock timestamptz DEFAULT '-infinity'
)
"""


@pytest.mark.parametrize(
    "columns",
    [
        {"args": "[1]"},
        {"args": "null"},
        {"args": "5"},
        {"args": '{"args": 1}'},
        {"args": '{"self": 1}'},
        {"args": f'{{"value": {"9" * 5_000}}}'},
        {"args": f'{{"value": {"[" * 3_000}{"]" * 3_000}}}'},
        {"task_name": ""},
        {"task_name": "..."},
        {"lock": ""},
        {"lock": "x" * 501},
        {"queue_name": "a,b"},
        {"queue_name": " "},
        {"queue_name": "x" * 201},
    ],
    ids=str,
)
def test_job_of_procrastinate_that_cannot_be_read_stays_alone(columns):
    execute(PROCRASTINATE)
    bad = {"task_name": "tests.echo", "args": '{"value": 1}', **columns}
    for row in (bad, {"task_name": "tests.echo", "args": '{"value": 1}'}):
        names = ", ".join(row)
        values = ", ".join(f"%({name})s" for name in row)
        execute(f"INSERT INTO procrastinate_jobs ({names}) VALUES ({values})", row)
    taken = procrastinate.take("default")
    assert (taken.number, sum(taken.reasons.values())) == (1, 1)
    assert Job.objects.count() == 1
    assert execute("SELECT count(*) FROM procrastinate_jobs") == [(1,)]


@pytest.mark.parametrize(
    "columns",
    [
        {"args": "not JSON"},
        {"args": '{"a": 1}'},
        {"args": "5"},
        {"kwargs": "[1]"},
        {"kwargs": "5"},
        {"kwargs": f'{{"value": {"9" * 5_000}}}'},
        {"name": "x" * 1_000},
        {"name": ""},
        {"task": "gone"},
        {"interval_id": 2},
        {"interval_id": 3},
        {"interval_id": 4},
        {"interval_id": None, "crontab_id": 1},
        {"interval_id": None, "crontab_id": 2},
    ],
    ids=str,
)
def test_schedule_of_celery_that_cannot_be_read_stays_alone(columns):
    execute(BEAT)
    for row in ({"name": "bad", "interval_id": 1, **columns}, {"name": "good"}):
        row = {"interval_id": 1, **row}
        names = ", ".join(row)
        values = ", ".join(f"%({name})s" for name in row)
        execute(
            f"INSERT INTO django_celery_beat_periodictask ({names}) VALUES ({values})",
            row,
        )
    taken = django_celery_beat.take("default")
    assert (taken.number, sum(taken.reasons.values())) == (1, 1)
    assert Schedule.objects.filter(name="good").exists()


@pytest.mark.parametrize(
    "columns",
    [
        {"args": "1, ("},
        {"args": "x"},
        {"args": "[" * 3_000},
        {"kwargs": "{1: 2}"},
        {"kwargs": "[1]"},
        {"kwargs": "**x"},
        {"kwargs": "{[]: 1}"},
        {"kwargs": "9" * 5_000},
        {"schedule_type": "C", "cron": "not cron"},
        {"schedule_type": "I", "minutes": 2_000_000_000},
        {"schedule_type": "?"},
        {"func": "x" * 1_000},
        {"name": "x" * 1_000},
    ],
    ids=lambda columns: str(columns)[:40],
)
def test_schedule_of_django_q2_that_cannot_be_read_stays_alone(columns):
    execute(Q2)
    for row in ({"name": "bad", **columns}, {"name": "good"}):
        names = ", ".join(row)
        values = ", ".join(f"%({name})s" for name in row)
        execute(f"INSERT INTO django_q_schedule ({names}) VALUES ({values})", row)
    taken = django_q2.take("default")
    assert (taken.number, sum(taken.reasons.values())) == (1, 1)
    assert Schedule.objects.filter(name="good").exists()


# What is not taken, or not whole, is named


def test_options_of_celery_that_have_no_place_are_named():
    execute(BEAT)
    execute(
        "INSERT INTO django_celery_beat_periodictask"
        " (name, interval_id, queue, priority, expire_seconds)"
        " VALUES ('whole', 1, NULL, NULL, NULL), ('part', 1, 'mail', 0, 60)"
    )
    taken = django_celery_beat.take("default")
    assert taken.number == 2
    assert taken.losses == {"part: queue, priority, expire_seconds": 1}


def test_options_of_procrastinate_that_have_no_place_are_named():
    execute(PROCRASTINATE)
    execute(
        "INSERT INTO procrastinate_jobs (task_name, args, queueing_lock, priority)"
        " VALUES ('tests.noop', '{}', NULL, 5), ('tests.noop', '{}', 'q', 500)"
    )
    taken = procrastinate.take("default")
    assert taken.number == 2
    assert taken.losses == {"tests.noop: queueing_lock, priority beyond -100 to 100": 1}


def test_schedules_and_packages_of_other_clusters_of_django_q2_stay(monkeypatch):
    monkeypatch.setattr(django_q2, "JOBS", READ)
    execute(Q2)
    execute(
        "INSERT INTO django_q_schedule (name, cluster)"
        " VALUES ('own', NULL), ('named', 'default'), ('other', 'reports')"
    )
    execute(
        "INSERT INTO django_q_ormq (key) VALUES ('default'), ('reports'), ('reports')"
    )
    taken = django_q2.take("default")
    assert taken.number == 3
    assert taken.reasons == {
        "schedules of the cluster reports (--cluster reports takes them)": 1,
        "packages of the cluster reports (--cluster reports takes them)": 2,
    }
    assert django_q2.take("default", "reports").number == 3
    assert Schedule.objects.filter(name="other").exists()
    assert execute("SELECT count(*) FROM django_q_ormq") == [(0,)]


def as_noop(name: str, payload: str | None):
    """Read a package, in the place of django-q2, which is not installed here."""
    return noop.bind().new_job


READ = django_q2.JOBS._replace(new_job=as_noop)


def test_cluster_is_an_option_of_django_q2_alone():
    with pytest.raises(CommandError, match="django-q2 only"):
        call_command("importtasks", "procrastinate", "--cluster", "x")


def test_import_says_what_it_lost_and_leaves_an_entry_in_the_audit_trail(monkeypatch):
    monkeypatch.setattr(command, "check_tables", lambda *names: None)
    execute(PROCRASTINATE)
    execute(
        "INSERT INTO procrastinate_jobs (task_name, args, queueing_lock)"
        " VALUES ('tests.noop', '{}', 'q')"
    )
    output, errors = StringIO(), StringIO()
    options = {"stdout": output, "stderr": errors}
    call_command("importtasks", "procrastinate", "--dry-run", **options)
    assert not AuditEntry.objects.exists()
    call_command("importtasks", "procrastinate", **options)
    lost = "Took 1 without what has no place here: tests.noop: queueing_lock.\n"
    assert errors.getvalue() == 2 * lost
    entry = AuditEntry.objects.get()
    assert (entry.act, entry.chosen, entry.number) == ("import", "procrastinate", 1)
    call_command("importtasks", "procrastinate", **options)
    assert AuditEntry.objects.count() == 1
