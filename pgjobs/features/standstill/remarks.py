"""What waits although nothing is in its way: jobs, lines, and notifications.

Most of what is seen once moves on within milliseconds. So what looks as if it stood
still is looked at again after a moment.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from time import sleep
from typing import Any

from django.utils.translation import gettext, ngettext

from ...base.moments import instant
from ...conf import positive_seconds
from ...models.worker import Worker
from ...reports.durations import seconds_in_words
from ...reports.obstacles import described, obstacles
from ...reports.reading import Report, rows_of, rows_with_keys
from ...reports.remarks import PATIENCE, Alert, Remark, Seen
from ..desk.limits import share
from .held_locks import held_lock_problems

LONGEST_STANDSTILL = timedelta(minutes=15)
SECOND_LOOK = 0.5  # seconds
MOST_QUEUES = 10_000  # that are looked at
MOST_JOBS = 100  # of each queue
MOST_NEAR = 3_000  # jobs that wait in lines
MOST_LINES = 500  # that are looked at beyond these
MOST_IN_LINE = 1_000  # jobs of one line, behind one in a queue that nobody serves
MOST_ASIDE = 100  # such lines
MOST_OLD = 1_000  # lines with an old first job, the oldest first
MOST_STILL = 100
MOST_NAMED = 5  # lines that get a sentence of their own
MOST_NOTIFICATIONS = 0.5  # of the space that the server has for them

UNADMITTED = {
    "patience": PATIENCE,
    "most_queues": MOST_QUEUES,
    "most_jobs": MOST_JOBS,
}
STILL_LINES = {
    "patience": LONGEST_STANDSTILL,
    "most_jobs": MOST_NEAR,
    "most_lines": MOST_LINES,
    "most_aside": MOST_ASIDE,
    "most_queues": MOST_IN_LINE,
    "most_old": MOST_OLD,
    "most": MOST_STILL,
}


# What a role that may not read keys reads through views.
ROLE_VIEWS = (
    Report("still_lines", STILL_LINES, ("id", "since")),
    Report("unadmitted", UNADMITTED, ("first", "since", "number")),
)


def unadmitted_jobs(
    seen: Seen, patience: float, pause: Callable = sleep
) -> list[Remark]:
    limits = UNADMITTED | {"patience": timedelta(seconds=patience)}
    rows = seen_twice(seen.database, "unadmitted", limits, pause)
    return [described_unadmitted(rows, seen.now)] if rows else []


def still_lines(seen: Seen, patience: float, pause: Callable = sleep) -> list[Remark]:
    limits = STILL_LINES | {"patience": timedelta(seconds=patience)}
    rows = seen_twice(seen.database, "still_lines", limits, pause)
    return described_lines(seen.database, rows, seen.alive, seen.now)


def seen_twice(
    database: str, name: str, limits: dict[str, Any], pause: Callable
) -> list[tuple]:
    """Return the rows of a report whose first job is the same after a moment."""
    before = rows_with_keys(database, name, limits)
    if not before:
        return []
    pause(SECOND_LOOK)
    firsts = {row[0] for row in before}
    again = rows_with_keys(database, name, limits)
    return [row for row in again if row[0] in firsts]


def described_unadmitted(rows: list[tuple], now: datetime) -> Remark:
    first, since, _ = rows[0]
    number = sum(each for _, _, each in rows)
    text = ngettext(
        "%(number)d job waits to be admitted, although a worker serves its queue: "
        "job %(id)d for %(time)s. The workers' logs say why.",
        "%(number)d jobs or more wait to be admitted, although workers serve their "
        "queues: job %(id)d for %(time)s. The workers' logs say why.",
        number,
    )
    values = {"number": number, "id": first, "time": waited(since, now)}
    return Remark(text % values, "job", first)


def described_lines(
    database: str, rows: list[tuple], alive: list[Worker], now: datetime
) -> list[Remark]:
    named = rows[:MOST_NAMED]
    in_the_way = obstacles(database, [id for id, _ in named])
    text = gettext(
        "A line stands still: its first job, %(id)d, has waited for %(time)s, and none "
        "of its key runs. It %(what)s."
    )
    found = [
        Remark(
            text
            % {
                "id": id,
                "time": waited(since, now),
                "what": described(in_the_way[id], alive),
            },
            "job",
            id,
            subject=str(id),
        )
        for id, since in named
        if id in in_the_way  # it may have begun meanwhile
    ]
    if more := len(rows) - len(named):
        text = ngettext(
            "%d more line stands still.", "%d more lines stand still.", more
        )
        found.append(Remark(text % more, "job", filters={"status": "WAITING"}))
    return found


def waited(since: datetime, now: datetime) -> str:
    return seconds_in_words((now - instant(since)).total_seconds())


def notification_problems(seen: Seen, most: float) -> list[Remark]:
    """Say so if notifications that a session does not fetch fill their queue.

    Once it is full, each COMMIT that notifies fails, in all databases of the server.
    """
    ((part,),) = rows_of(seen.database, "notification_queue", {})
    if part <= most:
        return []
    text = gettext(
        "The server's queue of notifications is %(percent)d %% full: a session that "
        "listens does not fetch them, such as that of a process that is frozen. Once "
        "it is full, no job can be enqueued. The page on monitoring says how to find "
        "it."
    )
    return [Remark(text % {"percent": part * 100})]


def held_locks(seen: Seen, _) -> list[Remark]:
    return held_lock_problems(seen.database)


ALERTS = (
    Alert(
        "lock_held",
        "A session has held a lock that pgjobs holds only for moments.",
        held_locks,
    ),
    Alert(
        "jobs_unadmitted",
        "Jobs have not been admitted for this time, although a worker serves their "
        "queue.",
        unadmitted_jobs,
        value=PATIENCE.total_seconds(),
        read=positive_seconds,
    ),
    Alert(
        "line_stuck",
        "The first job of a lock, limit or rate has waited for this time. What is in "
        "its way neither runs nor is about to, and neither sleeps nor waits for an "
        "answer, an event or other jobs.",
        still_lines,
        value=LONGEST_STANDSTILL.total_seconds(),
        read=positive_seconds,
    ),
    Alert(
        "notifications_full",
        "The server's queue of notifications is full to this share.",
        notification_problems,
        value=MOST_NOTIFICATIONS,
        read=share,
    ),
)
