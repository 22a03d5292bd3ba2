"""A row of another queue that cannot be read stays there, and the others are taken."""

import pytest

from pgjobs.management.importing import django_celery_beat, django_q2, procrastinate
from pgjobs.models import Job, Schedule
from tests.actors import execute

pytestmark = pytest.mark.django_db

PROCRASTINATE = """
CREATE TEMP TABLE procrastinate_jobs (
    id bigserial, task_name text, args jsonb, queue_name text DEFAULT 'default',
    priority integer DEFAULT 0, scheduled_at timestamptz, lock text,
    status text DEFAULT 'todo'
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
    last_run_at timestamptz
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
    intended_date_kwarg text
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
