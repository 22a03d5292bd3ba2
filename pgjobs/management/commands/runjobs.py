import os
import signal
import sys
import threading
from contextlib import nullcontext

import psycopg
from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from ...conf import settings
from ...models import Job
from ...models.worker import described
from ...tasks import registry
from ...worker import ExitCode, Loop, WorkerOptions
from ...worker.http import Address, Server
from ..parameters import (
    add_database,
    count,
    http_address,
    positive_seconds,
    queue_names,
    ready_database,
    seconds,
    whole_number,
)


class Command(BaseCommand):
    help = "Run a worker: claim the jobs of the queues and execute them."

    def add_arguments(self, parser):
        queues = parser.add_mutually_exclusive_group()
        queues.add_argument(
            "--queues",
            type=queue_names,
            metavar="A,B",
            help="serve only these queues (default: all)",
        )
        queues.add_argument(
            "--exclude",
            type=queue_names,
            metavar="C",
            default=(),
            help="serve all queues but these",
        )
        parser.add_argument(
            "--concurrency",
            "--threads",
            type=whole_number,
            metavar="N",
            dest="slots",
            help="jobs at the same time (default: PGJOBS['CONCURRENCY'], 4)",
        )
        parser.add_argument(
            "--prefetch",
            type=count,
            metavar="N",
            default=0,
            help="claim up to N jobs beyond the free slots: faster with short jobs, "
            "but other workers cannot have them (default: 0)",
        )
        parser.add_argument(
            "--poll",
            type=positive_seconds,
            metavar="SECONDS",
            help="look at the queue at least so often (default: "
            "PGJOBS['POLL_INTERVAL'], 5)",
        )
        parser.add_argument(
            "--no-listen",
            action="store_false",
            dest="listen",
            help="do not LISTEN for notifications, only poll",
        )
        parser.add_argument(
            "--drain",
            action="store_true",
            help="stop when nothing is ready to run",
        )
        parser.add_argument(
            "--max-jobs", type=whole_number, metavar="N", help="stop after N jobs"
        )
        parser.add_argument(
            "--max-time",
            type=positive_seconds,
            metavar="SECONDS",
            help="claim no more jobs after this time, and stop when the last has ended",
        )
        parser.add_argument(
            "--grace",
            type=seconds,
            metavar="SECONDS",
            default=30.0,
            help="time that running jobs get to end when the worker is asked to stop; "
            "then they go back to the queue (default: 30)",
        )
        parser.add_argument(
            "--name", metavar="NAME", help="name of the worker (default: host:pid)"
        )
        parser.add_argument(
            "--http",
            type=http_address,
            metavar="ADDRESS",
            help="answer GET /healthz, GET /readyz and POST /nudge there: [HOST:]PORT, "
            "for instance 8652 (default host: 127.0.0.1)",
        )
        add_database(parser)

    def handle(self, **options):
        alias = ready_database(options["database"])
        with settings.using_database(alias):
            self.warn_of_unknown_queues(alias, options)
            code = self.work(
                worker_options(alias, options), options["verbosity"], options["http"]
            )
        if code in (ExitCode.GRACE_OVER, ExitCode.SECOND_SIGNAL):
            # Job threads still run; they cannot be ended in any other way.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        if code:
            raise CommandError("The database was lost for good.", returncode=code)

    def work(
        self, options: WorkerOptions, verbosity: int, http: Address | None
    ) -> ExitCode:
        loop = Loop(options, self.print_job if verbosity > 1 else None)
        server = self.server(http, loop, verbosity) if http else nullcontext()
        queues = described(",".join(options.queues or ()), ",".join(options.excluded))
        if verbosity:
            self.stdout.write(
                f"Worker {options.name} runs up to {options.slots} jobs at a time. "
                f"Queues: {queues}. Stop it with Ctrl-C."
            )
        try:
            with stopping_on_signals(loop), server:
                code = loop.run()
        except psycopg.OperationalError as error:
            raise CommandError(
                f"The database cannot be reached: {str(error).strip()}", returncode=1
            ) from error
        if verbosity:
            self.print_summary(loop)
        return code

    def server(self, address: Address, loop: Loop, verbosity: int) -> Server:
        log = self.stdout.write if verbosity > 2 else None
        try:
            server = Server(address, loop, log)
        except (OSError, UnicodeError) as error:  # the latter for impossible names
            reason = getattr(error, "strerror", None) or error
            raise CommandError(
                f"Cannot listen on --http {address}: {reason}.", returncode=1
            ) from error
        if verbosity:
            self.stdout.write(f"Health and nudges on http://{server.address}.")
        return server

    def print_job(self, job, status: str) -> None:
        self.stdout.write(f"{job.task} #{job.id} attempt {job.attempt}: {status}")

    def print_summary(self, loop: Loop) -> None:
        noun = "job" if loop.finished == 1 else "jobs"
        self.stdout.write(f"Completed {loop.finished} {noun}.".removesuffix("."))
        if loop.options.drain:
            for line in what_is_left(loop.options):
                self.stdout.write(line)

    def warn_of_unknown_queues(self, alias: str, options: dict) -> None:
        """Warn of queues that no task and no job names: a typo waits for ever."""
        named = options["queues"] or options["exclude"]
        declared = {task.options.queue_name for task in registry.tasks.values()}
        for name in named:
            jobs = Job.objects.using(alias).filter(queue_name=name)
            if name not in declared and not jobs.ready().exists():
                known = ", ".join(sorted(declared)) or "none"
                self.stderr.write(
                    self.style.WARNING(
                        f"No task is declared for queue {name!r} "
                        f"(declared queues: {known})."
                    )
                )
        connections[alias].close()


def worker_options(alias: str, options: dict) -> WorkerOptions:
    given = {
        "queues": options["queues"],
        "excluded": options["exclude"],
        "slots": options["slots"],
        "prefetch": options["prefetch"],
        "poll": options["poll"],
        "grace": options["grace"],
        "drain": options["drain"],
        "max_jobs": options["max_jobs"],
        "max_time": options["max_time"],
        "listen": options["listen"],
        "name": options["name"],
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    return WorkerOptions(database=alias, **chosen)


def what_is_left(options: WorkerOptions):
    """Yield a line for each kind of job that draining left in the queue."""
    jobs = Job.objects.using(options.database)
    if options.queues is not None:
        jobs = jobs.filter(queue_name__in=options.queues)
    jobs = jobs.exclude(queue_name__in=options.excluded)
    scheduled = jobs.scheduled().order_by("run_after").first()
    if scheduled is not None:
        number = jobs.scheduled().count()
        yield f"Left: {number} scheduled, the next for {scheduled.run_after:%F %T %Z}."
    for status in ("waiting", "running", "ready"):
        if number := getattr(jobs, status)().count():
            yield f"Left: {number} {status}."


class stopping_on_signals:
    """Let SIGTERM and SIGINT stop the loop, where Python allows it."""

    def __init__(self, loop: Loop):
        self.loop = loop
        self.before: dict = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self.before[number] = signal.signal(number, self.stop)

    def stop(self, number, frame):
        self.loop.stop()

    def __exit__(self, *error):
        for number, handler in self.before.items():
            signal.signal(number, handler)
