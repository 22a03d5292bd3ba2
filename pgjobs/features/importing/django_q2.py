"""Schedules, and waiting jobs of the ORM broker, of django-q2."""

import ast
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings as django_settings
from django.db import connections

from ...queue.new_job import NewJob
from .taking import CannotTake, JobSource, Taken, save_schedule, take_jobs, task_at

TABLES = ("django_q_schedule", "django_q_ormq")
# What has no counterpart here.
EXTRAS = ("hook", "chain", "iter_count", "iter_cached")
PERIODS = {
    "H": timedelta(hours=1),
    "D": timedelta(days=1),
    "W": timedelta(weeks=1),
    "BW": timedelta(weeks=2),
}
MONTHS = {"M": 1, "BM": 2, "Q": 3, "Y": 12}
SAFE_DAYS = 28  # the days that every month has
SCHEDULES = """
SELECT id, coalesce(nullif(name, ''), func || ' (django-q2 ' || id || ')'), func,
    coalesce(args, ''), coalesce(kwargs, ''), schedule_type, minutes, cron, next_run,
    repeats, coalesce(hook, ''), coalesce(intended_date_kwarg, '')
FROM django_q_schedule
WHERE repeats <> 0 AND next_run IS NOT NULL AND coalesce(cluster, %(own)s) = %(cluster)s
ORDER BY id FOR UPDATE
"""
# What other clusters work on: schedules without a cluster are those of the project's.
OTHERS = """
SELECT kind, cluster, count(*)
FROM (
    SELECT 'schedules', coalesce(cluster, %(own)s) FROM django_q_schedule
    WHERE repeats <> 0 AND next_run IS NOT NULL
    UNION ALL
    SELECT 'packages', key FROM django_q_ormq WHERE lock <= now()
) AS every (kind, cluster)
WHERE cluster <> %(cluster)s
GROUP BY kind, cluster ORDER BY kind, cluster
"""
# django-q2 skips a schedule without repeats. Its admin still shows it.
STOP = "UPDATE django_q_schedule SET repeats = 0 WHERE id = ANY (%s::bigint[])"


def take(database: str, cluster: str | None = None) -> Taken:
    """Take the schedules, which stop there, and the jobs that no worker has.

    `cluster`: the name of the cluster whose they are. None: that of Q_CLUSTER.
    """
    own = own_cluster()
    names = {"own": own, "cluster": own if cluster is None else cluster}
    taken = Taken()
    take_schedules(database, names, taken)
    taken.left.clear()  # ids of another table follow
    take_jobs(database, JOBS._replace(parameters=names), taken)
    with connections[database].cursor() as cursor:
        cursor.execute(OTHERS, names)
        for kind, other, number in cursor.fetchall():
            reason = f"{kind} of the cluster {other} (--cluster {other} takes them)"
            taken.reasons[reason] += number
    return taken


def own_cluster() -> str:
    """Return the name of the project's cluster, as django-q2 reads it."""
    return getattr(django_settings, "Q_CLUSTER", {}).get("name", "default")


def take_schedules(database: str, names: dict[str, str], taken: Taken) -> None:
    with connections[database].cursor() as cursor:
        cursor.execute(SCHEDULES, names)
        done = []
        for id, name, func, args, kwargs, *rest in cursor.fetchall():
            with taken.or_left(id, name):
                when = when_of(*rest)
                given = positional(args), named(kwargs)
                save_schedule(database, name, func, *given, when)
                done.append(id)
        cursor.execute(STOP, [done])
    taken.number += len(done)


def when_of(
    kind: str,
    minutes: int | None,
    cron: str | None,
    next_run: datetime,
    repeats: int,
    hook: str,
    date_name: str,
) -> dict[str, Any]:
    """Return the options of a schedule; raise CannotTake if it has no counterpart."""
    if hook or date_name:
        raise CannotTake("it has a hook, or wants the date of its run")
    if repeats > 0:
        raise CannotTake("it ends after a number of runs")
    if kind == "C":
        return {"cron": cron}
    if kind == "I":
        return {"every": timedelta(minutes=minutes or 1), "start": next_run}
    if kind in PERIODS:
        return {"every": PERIODS[kind], "start": next_run}
    if kind in MONTHS:
        return {"cron": monthly(next_run, MONTHS[kind]), "start": next_run}
    raise CannotTake("it runs once")


def monthly(next_run: datetime, step: int) -> str:
    """Return the cron of each `step` months, at the time of the next run."""
    moment = next_run.astimezone(ZoneInfo(django_settings.TIME_ZONE))
    if moment.day > SAFE_DAYS:
        raise CannotTake(f"not every month has a day {moment.day}")
    months = sorted({(moment.month - 1 + step * n) % 12 + 1 for n in range(12 // step)})
    listed = "*" if step == 1 else ",".join(map(str, months))
    return f"{moment.minute} {moment.hour} {moment.day} {listed} *"


def positional(text: str) -> tuple:
    """Read "1, 2, 'John'", as django-q2 does."""
    if not text:
        return ()
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError) as error:
        raise CannotTake(f"its arguments cannot be read: {text}") from error
    return value if isinstance(value, tuple) else (value,)


def named(text: str) -> dict[str, Any]:
    """Read "x=1, y=2", or a dict."""
    if not text:
        return {}
    try:
        parsed = ast.parse(
            text if text.startswith("{") else f"dict({text})", mode="eval"
        )
        if isinstance(parsed.body, ast.Call):
            words = parsed.body.keywords
            if parsed.body.args:
                raise ValueError("a value has no name")
            return {str(word.arg): ast.literal_eval(word.value) for word in words}
        return ast.literal_eval(parsed)
    except (ValueError, SyntaxError) as error:
        raise CannotTake(f"its arguments cannot be read: {text}") from error


def new_job(name: str, payload: str) -> NewJob:
    """Return the job of a signed package; django-q2 itself must be there to read it."""
    from django_q.signing import SignedPackage

    package = SignedPackage.loads(payload)
    if extras := [each for each in EXTRAS if package.get(each)]:
        raise CannotTake(f"it has {' and '.join(extras)}")
    function = package["func"]
    path = function if isinstance(function, str) else dotted(function)
    bound = task_at(path).bind(*package.get("args", ()), **package.get("kwargs", {}))
    return bound.new_job


def dotted(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


JOBS = JobSource(
    # If the lock of a package lies in the future, a worker has the package.
    select="""
        SELECT id, 'package', payload FROM django_q_ormq
        WHERE lock <= now() AND key = %(cluster)s AND NOT id = ANY (%(left)s::bigint[])
        ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    """,
    delete="DELETE FROM django_q_ormq WHERE id = ANY (%s::bigint[])",
    new_job=new_job,
)
