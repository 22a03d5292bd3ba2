"""The log of a job, for a terminal: `jobs tail`."""

import contextlib
import re
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import datetime
from time import sleep
from typing import Any

from django.core.management.base import CommandError

from ...base.moments import local
from ...conf import FINISHED
from ...management.parameters import count
from ...models.job import Job
from ...models.progress import Progress
from ...reports.texts import visible
from .choosing import Verb, add_common, job_id

SECONDS = 1.0  # between two looks
REMEMBERED = 2_000  # characters of the end, by which the next look finds its place
LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d)(?= )", re.M)


def in_local_time(log: str) -> str:
    """Return the lines with their times as a clock here shows them."""

    def shown(match: re.Match[str]) -> str:
        moment = local(datetime.fromisoformat(match[1]))
        return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"

    return LINE.sub(shown, log)


def added(before: str, now: str) -> str:
    """Return what a log has gained. The oldest lines of a long one are dropped."""
    if now.startswith(before):
        return now[len(before) :]
    tail = before[-REMEMBERED:]
    place = now.rfind(tail)
    return now if place < 0 else now[place + len(tail) :]


def add_tail(parser: ArgumentParser) -> None:
    parser.add_argument("id", type=job_id, metavar="ID", help="id of the job")
    parser.add_argument(
        "--lines",
        type=count,
        default=10,
        metavar="N",
        help="begin with so many of the lines that there are (default: 10)",
    )
    add_common(parser)


def tail(command: Any, alias: str, options: dict[str, Any]) -> None:
    """Print the end of a job's log, and what comes until the job ends."""
    if options["json"] or command.is_one_of_all:
        raise CommandError("tail follows one job, as text.", returncode=2)
    with contextlib.suppress(KeyboardInterrupt):
        for text in pieces(command, alias, options["id"], options["lines"]):
            command.stdout.write(visible(in_local_time(text)), ending="")
            command.stdout.flush()


def pieces(command: Any, alias: str, id: int, most: int) -> Iterator[str]:
    """Yield the end of the log at once, then what it gains."""
    job, log = look(alias, id)
    lines = log.splitlines(keepends=True)
    yield "".join(lines[-most:] if most else [])
    if not log:
        yet = "" if job.status in FINISHED else " yet"
        command.stderr.write(f"Job {id} is {job.status}, and has no log{yet}.")
    is_followed = has_ended = job.status in FINISHED
    while not has_ended or not is_followed:
        sleep(SECONDS)
        is_followed = has_ended  # its last lines are stored after its end
        job, now = look(alias, id)
        yield added(log, now)
        log, has_ended = now, job.status in FINISHED
    if log:
        command.stderr.write(f"Job {id} is {job.status}.")


def look(alias: str, id: int) -> tuple[Job, str]:
    """Return the job and its log: first the status, so that no line is missed."""
    job = Job.objects.using(alias).only("status").filter(pk=id).first()
    if job is None:
        raise CommandError(f"There is no job {id}.", returncode=1)
    logs = Progress.objects.using(alias).filter(pk=id).values_list("log", flat=True)
    return job, logs.first() or ""


TAIL = Verb("tail", "follow the log of a job until it ends", add_tail, tail)
