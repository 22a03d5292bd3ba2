"""Schedules of django-celery-beat."""

import json
from datetime import datetime, timedelta
from typing import Any

from django.db import connections

from .taking import CannotTake, Taken, save_schedule

TABLES = ("django_celery_beat_periodictask",)
SCHEDULES = """
SELECT task.id, task.name, task.task, task.args, task.kwargs,
    task.start_time, task.expires, task.one_off,
    every.every, every.period,
    cron.minute, cron.hour, cron.day_of_month, cron.month_of_year, cron.day_of_week,
    cron.timezone, to_jsonb(task.*)::text
FROM django_celery_beat_periodictask AS task
LEFT JOIN django_celery_beat_intervalschedule AS every ON every.id = task.interval_id
LEFT JOIN django_celery_beat_crontabschedule AS cron ON cron.id = task.crontab_id
WHERE task.enabled ORDER BY task.id FOR UPDATE OF task
"""
# A schedule's jobs have the queue and the priority of their task.
LOST = ("queue", "exchange", "routing_key", "priority", "headers", "expire_seconds")
# As the package itself does when a task is switched off.
STOP = """
UPDATE django_celery_beat_periodictask SET enabled = false, last_run_at = NULL
WHERE id = ANY (%s::integer[])
"""
# A running beat reads its schedules again after this moment.
ANNOUNCE = """
INSERT INTO django_celery_beat_periodictasks (ident, last_update) VALUES (1, now())
ON CONFLICT (ident) DO UPDATE SET last_update = now()
"""


def take(database: str) -> Taken:
    """Take the enabled schedules, and disable them there."""
    taken, done = Taken(), []
    with connections[database].cursor() as cursor:
        cursor.execute(SCHEDULES)
        for id, name, path, args, kwargs, *rest, row in cursor.fetchall():
            with taken.or_left(id, name):
                when = when_of(*rest)
                given = tuple(json.loads(args or "[]")), json.loads(kwargs or "{}")
                save_schedule(database, name, path, *given, when)
                done.append(id)
                taken.loses(name, options_without_counterpart(json.loads(row)))
        if done:
            cursor.execute(STOP, [done])
            cursor.execute(ANNOUNCE)
    taken.number = len(done)
    return taken


def options_without_counterpart(row: dict[str, Any]) -> list[str]:
    """Return which of a row's options say something that a schedule cannot."""
    return [name for name in LOST if row.get(name) not in (None, "", "{}")]


def when_of(
    start: datetime | None,
    end: datetime | None,
    is_once: bool,
    every: int | None,
    period: str | None,
    *cron: Any,
) -> dict[str, Any]:
    """Return the options of a schedule; raise CannotTake if it has no counterpart."""
    if is_once:
        raise CannotTake("it runs once")
    if period is not None:
        length = timedelta(**{period: every or 0})
        return {"every": length, "start": start, "end": end}
    *fields, zone = cron
    if zone is None:
        raise CannotTake("it goes by the sun, or by one time of the clock")
    _, _, day, _, weekday = fields
    if day != "*" and weekday != "*":
        raise CannotTake("cron takes a day of the month or of the week, Celery both")
    text = " ".join("".join(field.split()) for field in fields)
    return {"cron": text, "timezone": zone, "start": start, "end": end}
