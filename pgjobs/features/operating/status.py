import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict
from io import StringIO
from typing import Any

from django.core.management.base import OutputWrapper

from ...conf import settings
from ...features import entries, modules
from ...management.databases import QueueCommand
from ...management.parameters import (
    add_database,
    count,
    positive_seconds,
    ready_database,
    seconds,
)
from ...management.speaking import Problems
from ...management.tables import print_table
from ...models.worker import STOP
from ...reports.durations import seconds_in_words
from ...reports.remarks import Remark
from ...reports.status import (
    MOST_COUNTED,
    Overview,
    QueueStatus,
    WorkerStatus,
    capped,
    overview,
)
from ...reports.texts import one_line
from ..desk.acknowledge_command import acknowledged, add_acknowledging
from ..desk.replica import replica_age
from .thresholds import late_queues, many_failed

WORKER = ("worker", "queues", "slots", "running", "units", "memory")
CLEAR = "\x1b[H\x1b[2J"  # the screen of a terminal


class Screen(StringIO):
    """What a terminal will show, before it is cut to its height."""

    def isatty(self) -> bool:
        return True


class Command(QueueCommand):
    stdout: OutputWrapper
    help = "Show what is going on: queues, workers, and what needs attention."

    def add_arguments(self, parser):
        parser.add_argument(
            "--json",
            action="store_true",
            help="print one JSON object, for programs (finished jobs are counted up to "
            f"{MOST_COUNTED})",
        )
        parser.add_argument(
            "--check",
            action="store_true",
            help="for monitoring: print only problems, exit with 1 if there are any "
            "(a failed job is not a problem by itself: it waits for your decision)",
        )
        parser.add_argument(
            "--max-latency",
            type=seconds,
            metavar="60s",
            help="a ready job that has waited longer is a problem",
        )
        parser.add_argument(
            "--max-failed",
            type=count,
            metavar="N",
            help="more failed jobs, of the time --within, are a problem",
        )
        parser.add_argument(
            "--within",
            type=positive_seconds,
            default=3_600.0,
            metavar="1h",
            help="the time of --max-failed (default: 1h)",
        )
        for entry in entries("jobstatus", "THRESHOLDS"):
            parser.add_argument(entry.option, type=count, metavar="N", help=entry.help)
        add_acknowledging(parser)
        parser.add_argument(
            "--watch",
            type=positive_seconds,
            nargs="?",
            const=2.0,
            metavar="2s",
            help="print it again and again, until Ctrl+C (default: every 2 s)",
        )
        add_database(parser, "all means each")

    def handle(self, **options):
        if options["acknowledge"] or options["take_back"]:
            with ready_database(options["database"]) as alias:
                text = acknowledged(alias, options)
            self.stdout.write(json.dumps(text) if options["json"] else text)
            return
        if options["watch"] is None:
            self.look(options)
            return
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                if self.stdout.isatty():
                    self.fill_screen(options)
                else:
                    self.look(options)
                self.stdout.flush()
                time.sleep(options["watch"])

    def fill_screen(self, options) -> None:
        """Print as many lines as the terminal has, what needs attention first."""
        terminal, screen = self.stdout, Screen()
        self.stdout = OutputWrapper(screen)
        try:
            self.look(options)
        finally:
            self.stdout = terminal
        lines = [line for line in screen.getvalue().splitlines() if line]
        most = shutil.get_terminal_size().lines - 2
        if len(lines) > most:
            lines = [*lines[:most], f"... and {len(lines) - most} more lines"]
        self.stdout.write(CLEAR + "\n".join(lines))

    def look(self, options) -> None:
        with ready_database(options["database"]) as alias:
            state = overview(alias)
            state.problems += exceeded(alias, state, options)
            states = {
                module.NAME: module.state(alias) for module in modules("jobstatus")
            }
            behind = replica_age(alias)
        if options["json"]:
            shown = asdict(state) | states
            shown["remarks"] = [described(each) for each in state.remarks]
            if behind is not None:
                shown["replica_seconds"] = behind
            self.stdout.write(json.dumps(shown, indent=2))
        elif not options["check"]:
            if behind is not None:
                self.stdout.write(f"Read from a replica, as it was {behind:.0f} s ago.")
            self.print_state(state, states)
        elif not state.problems:
            self.stdout.write("\n".join(["No problems.", *others(state)]))
        if options["check"] and state.problems:
            raise Problems("\n".join(state.problems + others(state)), returncode=1)

    def print_state(self, state: Overview, states: dict[str, Any]) -> None:
        for problem in state.problems:
            self.stdout.write(self.style.ERROR(problem))
        for remark in others(state):
            self.stdout.write(self.style.WARNING(remark))
        if state.problems or state.remarks:
            self.stdout.write("")
        self.print_queues(state)
        self.print_workers(state)
        for module in modules("jobstatus"):
            module.write(self.stdout, states[module.NAME])
        for line in details(state):
            self.stdout.write(line)

    def print_queues(self, state: Overview) -> None:
        titles = ("queue", "ready", "scheduled", "waiting", "running", "oldest ready")
        rows = [
            (
                queue.name,
                queue.ready,
                queue.scheduled,
                queue.waiting,
                queue.running,
                age(queue.oldest_ready_seconds),
            )
            for queue in state.queues
        ]
        notes = [remark(queue) for queue in state.queues]
        print_table(self.stdout, titles, rows, "No unfinished jobs.", ("queue",), notes)
        self.stdout.write("")

    def print_workers(self, state: Overview) -> None:
        titles = (*WORKER, "last beat", "state")
        rows = [
            (
                worker.name,
                worker.queues,
                worker.slots,
                worker.running,
                units_of(worker),
                "-" if worker.memory is None else f"{worker.memory >> 20} MB",
                age(worker.heartbeat_seconds),
                state_of(worker),
            )
            for worker in state.workers
        ]
        print_table(self.stdout, titles, rows, "No workers.", WORKER[:2])
        self.stdout.write("")


def others(state: Overview) -> list[str]:
    """Return what is to be said and is no problem, or none that counts."""
    words = (
        f"{'Acknowledged' if each.acknowledged else 'Remark'}: {each.text}"
        + (f" ({each.acknowledged})" if each.acknowledged else "")
        for each in state.remarks
        if not each.is_problem
    )
    return list(words)


def described(remark: Remark) -> dict[str, str]:
    """Return a remark for programs."""
    names = ("kind", "level", "subject", "text", "acknowledged")
    return {name: getattr(remark, name) for name in names}


def details(state: Overview) -> Iterator[str]:
    """Yield a line for each key that waits, and for what has ended."""
    for each in state.waiting:
        what = f"{each.kind} {each.key}".strip()
        yield f"{what}: {each.number} waiting, the first {each.first}"
    counts = ", ".join(
        f"{capped(number)} {status.lower()} ({kept_for(status)})"
        for status, number in state.finished.items()
    )
    yield f"Finished and kept: {counts}."


def kept_for(status: str) -> str:
    """Return how long jobs are kept after their end."""
    retention = settings.RETENTION[status]
    return "for ever" if retention is None else f"for {age(retention)}"


def exceeded(alias: str, state: Overview, options) -> list[str]:
    """Return what exceeds the limits that the options set."""
    remarks: list[str] = []
    if options["max_latency"] is not None:
        remarks += late_queues(state, options["max_latency"])
    if options["max_failed"] is not None:
        remarks += many_failed(alias, options["max_failed"], options["within"])
    for entry in entries("jobstatus", "THRESHOLDS"):
        if options[entry.name] is not None:
            remarks += entry.exceeded(alias, options[entry.name])
    return remarks


def remark(queue: QueueStatus) -> str:
    """Return what operators have decided about a queue, and why."""
    remarks = []
    if queue.paused_seconds is not None:
        person = f" by {one_line(queue.paused_by)}" if queue.paused_by else ""
        remarks.append(f"paused for {age(queue.paused_seconds)}{person}")
    if queue.max_running is not None:
        remarks.append(f"at most {queue.max_running} running")
    if queue.note:
        remarks.append(one_line(queue.note))
    return ", ".join(remarks)


def state_of(worker: WorkerStatus) -> str:
    if not worker.is_alive:
        return "lost"
    return {"": "alive", STOP: "stopping"}.get(worker.wanted, "quiet")


def units_of(worker: WorkerStatus) -> str:
    """Return how many units of its host are in use."""
    if worker.units is None:
        return "-"
    return f"{worker.units_in_use} of {worker.units}"


def age(seconds: float | None) -> str:
    return seconds_in_words(seconds) or "-"
