"""What `runjobs` prints: a banner, a line for each attempt, a summary.

The words are always English, because scripts read them.
"""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from django.conf import settings as django_settings
from django.core.management.base import OutputWrapper
from django.core.management.color import Style
from django.db import connections
from django.db.models import Count

from ..conf import MOST_UNITS, settings
from ..models.job import Job
from ..models.job_choices import WaitingFor
from ..models.queue import Queue
from ..queue.claiming import ClaimedJob
from ..queue.recording import Unsuccessful
from ..reports.texts import block, one_line
from ..tasks.registry import registry
from ..worker import WorkerOptions
from ..worker.observer import AttemptEnd, RunStats, WorkerObserver
from ..worker.process.pipe import SupervisorPipe

logger = logging.getLogger("pgjobs.worker")

LONGEST_TRACEBACK = 10_000  # characters
# What follows the 0, by whether a backend of django.tasks has tasks of its own.
NO_TASKS = {False: ", none found", True: ", and those of django.tasks"}
PRINT_SECONDS = 0.1  # between two writes
REMINDER_SECONDS = 60.0  # between two lines about a job that runs
MOST_REMINDERS = 20  # lines at a time

# By verdict: the word for an attempt after which the job goes on.
GOES_ON = {
    "RETRY": "RETRY",
    "SNOOZE": "SNOOZED",
    "RELEASE": "RELEASED",
    "UNKNOWN": "RELEASED",
}
STYLES = {
    "FAILED": "ERROR",
    "RETRY": "WARNING",
    "CANCELLED": "WARNING",
    "RELEASED": "WARNING",
}


class ConsoleReporter(WorkerObserver):
    """Prints what a worker does.

    It does not print in each pass: a write hands the interpreter to another thread, and
    a busy worker makes a thousand passes a second.
    """

    def __init__(self, out: OutputWrapper, style: Style, verbosity: int, name: str):
        self.out = out
        self.style = style
        self.is_quiet = verbosity < 1
        self.tells_requests = verbosity > 2
        self.shows_tracebacks = verbosity > 1 or django_settings.DEBUG
        self.running = RunningJobs() if verbosity > 1 else None
        self.prefix = f"{name} " if name else ""
        self.stats = RunStats()
        self.lines: list[str] = []  # not printed yet
        self.printed_at = 0.0

    @property
    def start(self) -> str:
        """What a line begins with."""
        return f"{time.strftime('%H:%M:%S')} {self.prefix}"

    def claimed(self, jobs: Sequence[ClaimedJob]) -> None:
        if self.running is not None:
            start = self.start
            self.lines += [f"{start}{line}" for line in self.running.begin(jobs)]
            self.print_soon()

    def recorded(self, ends: Sequence[AttemptEnd]) -> None:
        self.stats.count_all(ends)
        if self.running is not None:
            self.running.end(ends)
        if not self.is_quiet:
            start = self.start
            self.lines += [self.styled(start, end) for end in ends]
        self.print_soon()

    def print_soon(self) -> None:
        self.due = self.printed_at + PRINT_SECONDS
        if time.monotonic() >= self.due:
            self.catch_up()

    def catch_up(self) -> None:
        self.printed_at = time.monotonic()
        lines, self.lines = self.lines, []
        if self.running is not None:
            start = self.start
            lines += [f"{start}{line}" for line in self.running.reminder()]
        self.due = self.running.due if self.running is not None else math.inf
        self.write(lines)

    def stopping(self, running: int) -> None:
        self.print(f"Stopping: waiting for {number_of('job', running)} to end.")

    def stopping_workers(self, workers: int) -> None:
        self.print(f"Stopping: waiting for {number_of('worker', workers)} to end.")

    def print_request(self, line: str) -> None:
        """Print a line of the HTTP server, from any of its threads."""
        if self.tells_requests:
            self.write([f"{self.prefix}{line}"])

    def styled(self, start: str, end: AttemptEnd) -> str:
        job, status, outcome, seconds = end
        if not isinstance(outcome, Unsuccessful):
            line = f"{start}{job.task} #{job.id} {status} {seconds:.3f} s"
            return line if line.isprintable() else one_line(line)
        if status in ("READY", "SCHEDULED", "WAITING"):
            status = GOES_ON.get(outcome.verdict, status)
        line = f"{start}{job.task} #{job.id} {status} {seconds:.3f} s"
        if outcome.verdict == "RETRY":
            line += f" (attempt {job.attempt})"
        line = one_line(f"{line}: {outcome.reason}")
        line = getattr(self.style, STYLES.get(status or "", ""), str)(line)
        if status == "FAILED" and outcome.traceback and self.shows_tracebacks:
            line += f"\n{block(outcome.traceback, LONGEST_TRACEBACK).rstrip()}"
        return line

    def print(self, *lines: str) -> None:
        """Print lines at once, after those that were put off."""
        self.lines += lines
        self.catch_up()

    def write(self, lines: list[str]) -> None:
        """Write lines. A worker whose output is closed works on."""
        if self.is_quiet or not lines:
            return
        encoding = getattr(self.out, "encoding", None) or "utf-8"
        text = "\n".join(lines).encode(encoding, "backslashreplace").decode(encoding)
        try:
            self.out.write(text)
            self.out.flush()
        except (OSError, ValueError) as error:  # as after `| head`
            self.is_quiet = True
            logger.warning("Nothing can be printed any more: %s", error)

    def print_summary(self, stats: RunStats) -> None:
        self.print(f"Completed {number_of('job', stats.completed)}")
        parts = (
            (stats.failed, "Failed"),
            (stats.cancelled, "Cancelled"),
            (stats.retried, "Attempts to be retried"),
        )
        if line := " ".join(f"{what}: {number}." for number, what in parts if number):
            self.print(line)


class RunningJobs:
    """What `runjobs -v 2` says of the jobs that run: at the claim, then each minute."""

    def __init__(self) -> None:
        self.began: dict[int, tuple[ClaimedJob, float]] = {}  # by lease token
        self.due = math.inf  # monotonic time of the next reminder

    def begin(self, jobs: Sequence[ClaimedJob]) -> list[str]:
        now = time.monotonic()
        self.began |= {job.lease_token: (job, now) for job in jobs}
        self.due = min(self.due, now + REMINDER_SECONDS)
        return [one_line(f"{job.task} #{job.id} RUNNING") for job in jobs]

    def end(self, ends: Sequence[AttemptEnd]) -> None:
        for each in ends:
            self.began.pop(each.job.lease_token, None)

    def reminder(self) -> list[str]:
        """Return a line for each of the oldest jobs, if a minute has passed."""
        now = time.monotonic()
        if now < self.due:
            return []
        self.due = now + REMINDER_SECONDS if self.began else math.inf
        old = [
            one_line(f"{job.task} #{job.id} RUNNING for {now - began:.0f} s")
            for job, began in self.began.values()
            if now - began >= REMINDER_SECONDS
        ]
        hidden = len(old) - MOST_REMINDERS
        return [*old[:MOST_REMINDERS], *([f"and {hidden} more"] if hidden > 0 else [])]


class ChildReporter(ConsoleReporter):
    """Prints what a supervised worker does, and sends its figures up."""

    def __init__(self, pipe: SupervisorPipe, *args) -> None:
        super().__init__(*args)
        self.pipe = pipe
        self.is_ready = False

    def started(self) -> None:
        self.is_ready = True
        self.catch_up()

    def stopping(self, running: int) -> None:
        """Print nothing: the supervisor has said so."""

    def catch_up(self) -> None:
        super().catch_up()
        if self.is_ready:  # the first message says so
            self.pipe.send(self.stats)


def number_of(noun: str, number: int, plural: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else plural}"


def banner(
    options: WorkerOptions, who: str, verbosity: int, aliases: Sequence[str] = ()
) -> list[str]:
    """Return the banner of a worker, or of several with the same options."""
    tasks = sorted(task.name for task in registry.tasks.values())
    if options.queues is not None:
        queues = ", ".join(options.queues)
    elif options.excluded:
        queues = f"all but {', '.join(options.excluded)}"
    else:
        queues = "all"
    listens = options.listen and settings.LISTEN is not False
    how = "notified by LISTEN, and polls" if listens else "polls"
    found = " found" if tasks else NO_TASKS[bool(registry.sources)]
    slots = number_of("slot", options.slots)
    if options.units is not None:
        slots += f", {number_of('process unit', options.units)} on this host"
    if options.isolated is not None:
        slots += f", at most {number_of('isolated job', options.isolated)} at a time"
    lines = [
        f"{one_line(who)}: {slots}, queues: {one_line(queues)}.",
        f"{described_databases(aliases or (options.database,))}; "
        f"{how} every {options.poll:g} s.",
        f"Tasks: {len(tasks)}{found}.",
    ]
    if verbosity > 1:
        lines += by_app(tasks)
    lines.append("Stop with Ctrl-C; a second time to stop at once.")
    return lines


def by_app(tasks: Sequence[str]) -> Iterator[str]:
    """Yield the names of tasks, sorted, those of one app on one line."""
    by_name = sorted(tasks, key=lambda name: name.rpartition(".")[::2])
    for app, names in groupby(by_name, lambda name: name.rpartition(".")[0]):
        yield f"- {app}: {', '.join(name.rpartition('.')[2] for name in names)}"


def described_databases(aliases: Sequence[str]) -> str:
    noun = "Databases" if len(aliases) > 1 else "Database"
    return f"{noun}: {', '.join(map(described_database, aliases))}"


def described_database(alias: str) -> str:
    """Return where a database is, without the secrets of its settings."""
    given = connections[alias].settings_dict
    name = given["NAME"] or given["OPTIONS"].get("service", "")
    host = given["HOST"] or "local socket"
    port = f":{given['PORT']}" if given["PORT"] else ""
    return f"{alias} ({name} at {host}{port})"


def what_is_left(options: WorkerOptions) -> Iterator[str]:
    """Yield a line for each kind of job that draining left in the queue."""
    jobs = Job.objects.using(options.database)
    if options.queues is not None:
        jobs = jobs.filter(queue_name__in=options.queues)
    jobs = jobs.exclude(queue_name__in=options.excluded)
    scheduled = jobs.scheduled().order_by("run_after").first()
    if scheduled is not None:
        number = jobs.scheduled().count()
        yield f"Left: {number} scheduled, the next for {scheduled.run_after:%F %T %Z}."
    labels = dict(WaitingFor.choices)
    reasons = jobs.waiting().values_list("waiting_for").annotate(Count("pk"))
    for reason, number in reasons.order_by("waiting_for"):
        yield f"Left: {number} waiting for {labels.get(reason, reason)}."
    if number := jobs.running().count():
        yield f"Left: {number} running."
    queues = Queue.objects.using(options.database).exclude(paused_at=None)
    paused = jobs.ready().filter(
        queue_name__in=list(queues.values_list("name", flat=True))
    )
    if number := paused.count():
        names = paused.order_by("queue_name").values_list("queue_name", flat=True)
        listed = one_line(", ".join(names.distinct()))
        yield f"Left: {number} ready in paused queues: {listed}."
    others = jobs.ready().exclude(pk__in=paused)
    heavy = others.filter(process_units__gt=options.units or MOST_UNITS)
    if number := heavy.count():
        yield f"Left: {number} ready that take more than {options.units} process units."
    if left := others.count() - number:
        yield f"Left: {left} ready."


def is_not_printed(record: logging.LogRecord) -> bool:
    """Whether no printed line says the same as the log record."""
    return not hasattr(record, "status")


@contextmanager
def logging_to(err: OutputWrapper, verbosity: int, name: str) -> Iterator[None]:
    """Send warnings of pgjobs to the console if the project sends them nowhere.

    Records that only repeat a printed line are dropped.
    """
    root = logging.getLogger("pgjobs")
    if root.hasHandlers():
        yield
        return
    handler = logging.StreamHandler(err)
    prefix = f"{one_line(name)} ".replace("%", "%%") if name else ""
    handler.setFormatter(
        logging.Formatter(f"%(asctime)s {prefix}%(levelname)s %(message)s", "%H:%M:%S")
    )
    handler.setLevel(logging.WARNING)
    if verbosity > 0:
        handler.addFilter(is_not_printed)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
