import gc
import math
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic, time

from django.apps import apps
from django.core.management.base import CommandError
from django.db import connections
from django.utils import autoreload
from django.utils.autoreload import get_child_arguments

from ..base.connections import pool_size
from ..conf import settings
from ..features import entries, modules
from ..models.job import Job
from ..reports.status import LIVE
from ..tasks.registry import registry
from ..worker import ExitCode, Loop, WorkerOptions
from ..worker.memory import resident_bytes
from ..worker.observer import RunStats
from ..worker.process.last_resort import LAST_SECONDS, LastResort, end_process
from ..worker.process.pipe import SupervisorPipe
from ..worker.process.signals import stopping_on_signals
from ..worker.process.supervisor import Supervisor
from .databases import chosen_databases
from .parameters import check_migrations, check_mode, check_schema
from .refusals import explained
from .running import (
    ChildReporter,
    ConsoleReporter,
    banner,
    logging_to,
    number_of,
    what_is_left,
)
from .speaking import HelpfulCommand
from .worker_arguments import add_worker_arguments

# With these codes jobs still run in threads. Only the end of the process stops them.
THREADS_LEFT = (ExitCode.GRACE_OVER, ExitCode.SECOND_SIGNAL)


class Command(HelpfulCommand):
    help = "Run a worker: claim the jobs of the queues and execute them."
    has_given_up = False  # whether code of a job runs on

    def add_arguments(self, parser):
        add_worker_arguments(parser)

    def handle(self, **options):
        self.last_resort = LastResort()
        aliases = chosen_databases(options["database"], self.stderr)
        chosen = worker_options(aliases[0], options)
        is_child = options["child"] is not None
        name = chosen.name if is_child else ""
        verbosity = options["verbosity"]
        output = (self.stdout, self.style, verbosity, name)
        with (
            settings.using_database(aliases[0] if len(aliases) == 1 else None),
            logging_to(self.stderr, verbosity, name),
            explained(chosen.database),
        ):
            if is_child:
                pipe = SupervisorPipe(options["child"])
                code = self.work_as_child(chosen, options, ChildReporter(pipe, *output))
            elif options["processes"] or options["reload"] or self.needs_team(aliases):
                reporter = ConsoleReporter(*output)
                code = self.supervise(chosen, aliases, options, reporter)
            elif len(aliases) > 1:
                code = self.drain_all(aliases, options, output)
            else:
                code = self.work(chosen, options, ConsoleReporter(*output))
        if not self._called_from_command_line:
            self.last_resort.lift()
        else:
            # Threads and children that jobs have left may keep Python from ending.
            self.last_resort.end_within(chosen.grace + LAST_SECONDS, code)
        if code in THREADS_LEFT or self.has_given_up:
            flush()
            end_process(code)
        if self._called_from_command_line:
            # Before it ends, Python would collect garbage twice. That would take longer
            # than all else from the signal to the end.
            gc.freeze()
        if code:
            sys.exit(code)

    # One worker

    def drain_all(self, aliases: Sequence[str], options: dict, output) -> ExitCode:
        """Drain one database after the other in this process; return the worst code."""
        if not options["drain"]:
            raise CommandError(
                "--database all without --drain works on the command line only.",
                returncode=2,
            )
        worst = ExitCode.STOPPED
        for alias in aliases:
            with settings.using_database(alias):
                chosen = worker_options(alias, options)
                code = self.work(chosen, options, ConsoleReporter(*output))
            worst = max(worst, code)
        return worst

    def work(
        self, chosen: WorkerOptions, options: dict, reporter: ConsoleReporter
    ) -> ExitCode:
        self.check_start(chosen, options)
        who = f"Worker {chosen.name}"
        reporter.print(*banner(chosen, who, options["verbosity"]))
        loop = self.loop(chosen, reporter)
        with stopping_on_signals(partial(self.stop, loop)):
            code = self.run_loop(loop, options, reporter)
        self.print_end(chosen, reporter, reporter.stats)
        if code == ExitCode.RESTART and self.has_given_up:
            self.start_again()
        if code == ExitCode.LOST:
            raise CommandError("The database was lost for good.", returncode=code)
        return code

    def start_again(self) -> None:
        """Replace this process, and the threads that still run in it, by a new one."""
        if self._called_from_command_line:
            flush()
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])

    def work_as_child(
        self, chosen: WorkerOptions, options: dict, reporter: ChildReporter
    ) -> ExitCode:
        loop = self.loop(chosen, reporter)
        pipe = reporter.pipe
        # Before check_start, which may have to wait for a lock in the database.
        pipe.obey(partial(self.stop, loop))
        self.check_start(chosen, options)
        with stopping_on_signals(pipe.signalled):
            return self.run_loop(loop, options, reporter)

    def loop(self, chosen: WorkerOptions, reporter: ConsoleReporter) -> Loop:
        loop = Loop(chosen, reporter)
        loop.on_told = partial(self.end_after_grace, loop)
        return loop

    def stop(self, loop: Loop) -> None:
        """Stop a worker; end the process if the worker does not end in time."""
        loop.stop()
        if loop.lifetime.signals > 1:
            self.last_resort.end_within(LAST_SECONDS, ExitCode.SECOND_SIGNAL)
        else:
            self.end_after_grace(loop)

    def end_after_grace(self, loop: Loop) -> None:
        """End the process soon after the grace, if the worker does not."""
        grace = loop.options.grace + LAST_SECONDS
        self.last_resort.end_within(grace, ExitCode.GRACE_OVER)

    def check_start(self, chosen: WorkerOptions, options: dict) -> None:
        """Raise CommandError for faults that time does not cure."""
        check_mode()
        check_migrations(chosen.database)
        check_schema(chosen.database)
        size = resident_bytes()
        if chosen.max_memory is not None and chosen.max_memory < size:
            raise CommandError(
                f"--max-memory {chosen.max_memory / 1e6:.0f}MB is less than a worker "
                f"takes from the start: {size / 1e6:.0f}MB.",
                returncode=2,
            )
        if options["child"] is None or options["first"]:
            self.warn_of_unknown_queues(chosen.database, options)
            self.warn_of_small_pool(chosen)
        for prepare in entries("start", "ON_WORKER_START"):
            prepare(chosen.database)
        connections[chosen.database].close()

    def run_loop(
        self, loop: Loop, options: dict, reporter: ConsoleReporter
    ) -> ExitCode:
        if self._called_from_command_line:
            gc.freeze()  # so that no collection goes through all that was imported
        try:
            with ExitStack() as beside:
                for module in modules("runjobs"):
                    beside.enter_context(module.serving(loop, options, reporter))
                return loop.run()
        finally:
            loop.observer.catch_up()
            self.has_given_up = loop.executor.given_up > 0

    def print_end(
        self,
        chosen: WorkerOptions,
        reporter: ConsoleReporter,
        stats: RunStats,
        aliases: Sequence[str] = (),
    ) -> None:
        reporter.print_summary(stats)
        if not chosen.drain or reporter.is_quiet:
            return
        for alias in aliases or (chosen.database,):
            heading = f"{alias}: " if len(aliases) > 1 else ""
            for line in what_is_left(replace(chosen, database=alias)):
                reporter.print(f"{heading}{line}")

    def warn_of_unknown_queues(self, alias: str, options: dict) -> None:
        """Warn of queues that no task and no job names, as after a typo."""
        named = options["queues"] or options["exclude"]
        declared = registry.queue_names()
        for name in named:
            jobs = Job.objects.using(alias).filter(queue_name=name, status__in=LIVE)
            if name not in declared and not jobs.exists():
                known = ", ".join(sorted(declared)) or "none"
                self.stderr.write(
                    self.style.WARNING(
                        f"No task is declared for queue {name!r} "
                        f"(declared queues: {known})."
                    )
                )

    def warn_of_small_pool(self, chosen: WorkerOptions) -> None:
        """Warn of a pool too small for --concurrency: system checks do not know it."""
        size = pool_size(chosen.database)
        if size is not None and settings.CONCURRENCY <= size < chosen.slots:
            self.stderr.write(
                self.style.WARNING(
                    f"The connection pool of DATABASES[{chosen.database!r}] has {size} "
                    f"connections for {chosen.slots} slots: jobs wait for each other. "
                    "Raise OPTIONS['pool']['max_size'], or lower --concurrency."
                )
            )

    # Several workers

    def needs_team(self, aliases: Sequence[str]) -> bool:
        """Whether workers of several databases can run side by side."""
        return len(aliases) > 1 and self._called_from_command_line

    def supervise(
        self,
        chosen: WorkerOptions,
        aliases: Sequence[str],
        options: dict,
        reporter: ConsoleReporter,
    ) -> ExitCode:
        """Run the workers of each database as processes of their own.

        This process opens no connection until the last of them has ended. Then it asks
        which jobs --drain has left.
        """
        processes = options["processes"] or 1
        number = processes * len(aliases)
        self.check_supervision(number, options)
        connections.close_all()
        supervisor = Supervisor(
            partial(child_command, chosen, aliases, options, monotonic()),
            processes=processes,
            teams=len(aliases),
            grace=chosen.grace,
            is_finite=chosen.drain or chosen.max_time is not None,
            max_time=math.inf if chosen.max_time is None else chosen.max_time,
            waits_for_changes=options["reload"],
            on_stopping=reporter.stopping_workers,
        )
        who = f"{number_of('worker process', number, 'es')} of {os.getpid()}"
        if number > 1:
            who += ", each"
        reporter.print(*banner(chosen, who, options["verbosity"], aliases))
        if options["reload"]:
            watch(supervisor.reload)
        code = supervisor.run()
        if supervisor.is_proven:
            self.print_end(chosen, reporter, supervisor.stats, aliases)
        return code

    def check_supervision(self, processes: int, options: dict) -> None:
        """Raise CommandError where workers cannot run as processes of their own."""
        if not self._called_from_command_line:
            raise CommandError(
                "--processes and --reload run the command line of this process again, "
                "so they work on the command line only.",
                returncode=2,
            )
        for module in modules("runjobs"):
            module.check_processes(processes, options)


def child_command(
    chosen: WorkerOptions,
    aliases: Sequence[str],
    options: dict,
    started_at: float,
    number: int,
    is_first: bool,
) -> list[str]:
    """Return the command line of the worker process with this number."""
    line = [*get_child_arguments(), "--skip-checks"]
    processes = options["processes"] or 1
    if options["database"] is not None:
        line += ["--database", aliases[(number - 1) // processes]]
    if options["name"] is not None and (options["processes"] or len(aliases) > 1):
        line += ["--name", f"{options['name']}-{number}"]
    for module in modules("runjobs"):
        line += module.child_arguments(options, number, processes)
    if chosen.max_time is not None:
        left = chosen.max_time - (monotonic() - started_at)
        line += ["--max-time", f"{max(left, 0.001):.3f}"]
    return [*line, "--first"] if is_first else line


def flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def worker_options(alias: str, options: dict) -> WorkerOptions:
    given = {
        "queues": options["queues"],
        "excluded": options["exclude"],
        "slots": options["slots"],
        "units": options["units"],
        "isolated": options["isolated"],
        "prefetch": options["prefetch"],
        "poll": options["poll"],
        "grace": options["grace"],
        "drain": options["drain"],
        "max_jobs": options["max_jobs"],
        "max_time": options["max_time"],
        "max_memory": options["max_memory"],
        "listen": options["listen"],
        "name": options["name"],
        "is_replaced": options["child"] is not None,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    return WorkerOptions(database=alias, **chosen)


def watch(changed: Callable[[], None]) -> None:
    """Call `changed` whenever code has changed, from a thread of its own."""
    threading.Thread(
        target=watch_on, args=[changed, time()], name="pgjobs-reload", daemon=True
    ).start()


def watch_on(changed: Callable[[], None], since: float) -> None:
    """Call `changed` whenever code has changed, from a moment on."""
    while True:
        reloader = autoreload.get_reloader()
        for directory in own_directories():
            reloader.watch_dir(directory, "**/*.py")
        autoreload.autoreload_started.send(sender=reloader)
        begins = time()
        # To the reloader a change before its first look is no change.
        if any(changed_at(path) > since for path in reloader.watched_files()):
            changed()
        since = begins
        try:
            reloader.run_loop()
        except SystemExit:  # the reloader raises it when a file has changed
            changed()


def changed_at(path: Path) -> float:
    """Return when the file was changed; a file that is gone was not."""
    try:
        return path.stat().st_mtime
    except OSError:
        return -math.inf


def own_directories() -> set[Path]:
    """Return the directories of the project's apps.

    They must be watched as a whole, because this process imports little of them.
    """
    installed = {Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    return {
        path
        for path in (Path(config.path) for config in apps.get_app_configs())
        if not installed & set(path.parents)
    }
