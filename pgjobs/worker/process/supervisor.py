"""The supervisor: starts workers, replaces those that end, and outlives them all.

It runs no jobs and has no connection to the database. Its workers are fresh processes
(no fork), each at the end of a pipe. Orders to stop go down, figures come up, and when
either end dies the other one notices.
"""

import logging
import math
import random
import select
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from ..connections.bell import Bell
from ..exit_code import ExitCode
from ..observer import RunStats
from .pipe import SupervisorPipe
from .signals import STOPPING_SIGNALS

logger = logging.getLogger("pgjobs.supervisor")

SHORTEST_PAUSE = 0.5  # seconds before another worker follows one that died
LONGEST_PAUSE = 30.0
HEALTHY_SECONDS = 30.0  # a worker that lived longer did not die of its start
OBEY_SECONDS = 5.0  # beyond its grace, for a worker to end before it is killed
LONGEST_SLEEP = 3600.0  # poll() overflows after some weeks
# After RESTART another process follows at once; after other codes, and signals, later.
ENDED_BY_ITSELF = (
    ExitCode.STOPPED,
    ExitCode.LOST,
    ExitCode.GRACE_OVER,
    ExitCode.SECOND_SIGNAL,
)


class WorkerPipe:
    """The supervisor's end of the pipe to one worker; see `pipe.SupervisorPipe`."""

    def __init__(self) -> None:
        self.socket, self.far_end = socket.socketpair()
        self.socket.setblocking(False)
        self.received = b""
        self.stats: RunStats | None = None  # until the worker is ready
        self.is_open = True

    def order(self, level: int) -> None:
        try:
            self.socket.send(str(level).encode())
        except OSError:
            return  # the worker is gone, or has left a hundred orders unread

    def hear(self) -> None:
        """Take the worker's figures; the latest ones include the former."""
        size = SupervisorPipe.MESSAGE.size
        try:
            while data := self.socket.recv(65536):
                self.received += data
                complete = len(self.received) // size * size
                if complete:
                    latest = self.received[complete - size : complete]
                    self.stats = RunStats(*SupervisorPipe.MESSAGE.unpack(latest))
                    self.received = self.received[complete:]
            self.is_open = False
        except BlockingIOError:
            return
        except OSError:
            self.is_open = False


class ChildProcess:
    """One worker process at a time, and when the next one follows it."""

    def __init__(self, number: int, team: "Team"):
        self.number = number
        self.team = team
        self.process: subprocess.Popen | None = None
        self.pipe: WorkerPipe | None = None
        self.started_at = 0.0
        # Monotonic time. None if no other process follows.
        self.start_at: float | None = 0.0
        self.kill_at = math.inf
        self.quick_deaths = 0
        self.is_reloading = False

    @property
    def is_over(self) -> bool:
        return self.process is None and self.start_at is None

    @property
    def next_event(self) -> float:
        if self.process is not None:
            return self.kill_at
        return math.inf if self.start_at is None else self.start_at

    @property
    def stats(self) -> RunStats | None:
        """The figures of the latest worker, or None if it was never ready."""
        return self.pipe.stats if self.pipe else None

    def start(self, command: list[str]) -> None:
        """Start a worker; raises OSError."""
        self.pipe = WorkerPipe()
        self.started_at = monotonic()
        self.start_at = None
        self.kill_at = math.inf
        self.is_reloading = False
        with self.pipe.far_end as far_end, stopping_signals_blocked():
            self.process = subprocess.Popen(
                [*command, "--child", str(far_end.fileno())],
                pass_fds=[far_end.fileno()],
            )

    def order(self, level: int, patience: float) -> None:
        """Order the worker to stop; kill it if it has not ended after `patience`."""
        if self.process is not None and self.pipe is not None:
            self.pipe.order(level)
            self.kill_at = min(self.kill_at, monotonic() + patience)

    def kill(self) -> None:
        if self.process is not None:
            logger.error("Worker pid=%s does not end and is killed", self.process.pid)
            self.kill_at = math.inf
            self.process.kill()

    def ended(self) -> int | None:
        """Return the worker's exit code and forget the process, if it has ended."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        if self.pipe is not None:
            self.pipe.hear()
            self.pipe.socket.close()
        self.process = None
        return code

    def pause_after_death(self) -> float:
        """Return the wait before another start: longer with each quick death."""
        if monotonic() - self.started_at >= HEALTHY_SECONDS:
            self.quick_deaths = 0
        longest = min(SHORTEST_PAUSE * 2**self.quick_deaths, LONGEST_PAUSE)
        self.quick_deaths = min(self.quick_deaths + 1, 10)
        return longest * random.uniform(0.8, 1)


class Team:
    """The workers of one database: what keeps one from starting keeps all of them."""

    def __init__(self, numbers: range):
        self.children = [ChildProcess(number, self) for number in numbers]
        self.has_started_any = False
        self.is_proven = False  # a worker was ready once, so others can be, too
        self.has_failed = False  # a worker could not start

    @property
    def startable(self) -> list[ChildProcess]:
        """The children that may start: only the first until a worker was ready."""
        may_all = self.is_proven or self.children[0].is_over
        return self.children if may_all else self.children[:1]


class Supervisor:
    """Keeps a number of workers running until it is asked to stop.

    - `command` returns the command line of a worker, given its number and whether it is
      the very first one of its team.
    - `processes`: the workers of a team. `teams`: how many teams there are. The workers
      are numbered from 1, those of the first team before the others.
    - `grace`: seconds that a worker may take to stop.
    - `is_finite`: a worker that ends by itself has done its work.
    - `max_time`: seconds after which no worker is started any more.
    - `waits_for_changes`: a worker that cannot start waits for `reload()`, because the
      code may be broken for a while.
    - `on_stopping` is called with the number of workers when they are asked to stop.
    """

    def __init__(
        self,
        command: Callable[[int, bool], list[str]],
        *,
        processes: int,
        grace: float,
        teams: int = 1,
        is_finite: bool = False,
        max_time: float = math.inf,
        waits_for_changes: bool = False,
        on_stopping: Callable[[int], None] = lambda workers: None,
    ):
        self.command = command
        self.teams = [
            Team(range(first, first + processes))
            for first in range(1, processes * teams + 1, processes)
        ]
        self.children = [child for team in self.teams for child in team.children]
        self.grace = grace
        self.is_finite = is_finite
        self.end_at = monotonic() + max_time
        self.waits_for_changes = waits_for_changes
        self.on_stopping = on_stopping
        self.bell = Bell()
        self.signals = 0
        self.obeyed = 0  # signals that were passed on to the workers
        self.must_reload = False
        self.worst = ExitCode.STOPPED
        self.stats = RunStats()

    @property
    def is_proven(self) -> bool:
        """Whether a worker of any team was ready once."""
        return any(team.is_proven for team in self.teams)

    def run(self) -> ExitCode:
        """Run until the last worker has ended; return the worst of their codes."""
        with self.handling_signals():
            while True:
                self.pass_signals_on()
                self.reload_if_asked()
                self.start_due()
                if all(child.is_over for child in self.children):
                    break
                self.sleep()
                self.reap()
        self.bell.close()
        return self.worst

    def stop(self, *args) -> None:
        """Stop all workers; the second time, at once. Safe in a signal handler."""
        self.signals += 1
        self.bell.ring()

    def reload(self) -> None:
        """Replace all workers once their jobs have ended; callable from any thread."""
        self.must_reload = True
        self.bell.ring()

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        self.bell.hear_signals()
        handlers = dict.fromkeys(STOPPING_SIGNALS, self.stop)
        handlers[signal.SIGCHLD] = lambda *args: self.bell.ring()
        before = {
            number: signal.signal(number, handler)
            for number, handler in handlers.items()
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def pass_signals_on(self) -> None:
        level = min(self.signals, 2)
        if level == self.obeyed:
            return
        running = sum(child.process is not None for child in self.children)
        if running and not self.obeyed:
            self.on_stopping(running)
        self.obeyed = level
        patience = OBEY_SECONDS + (self.grace if level == 1 else 0)
        for child in self.children:
            child.start_at = None
            child.order(level, patience)

    def reload_if_asked(self) -> None:
        if not self.must_reload:
            return
        self.must_reload = False
        for child in self.children:
            if child.process is not None:
                child.is_reloading = True
                child.order(1, self.grace + OBEY_SECONDS)
            elif child.start_at is not None:
                child.start_at = 0.0

    @property
    def startable(self) -> list[ChildProcess]:
        return [child for team in self.teams for child in team.startable]

    def start_due(self) -> None:
        for child in self.startable:
            if child.process is None and child.start_at is not None:
                if child.team.has_started_any and monotonic() >= self.end_at:
                    child.start_at = None
                elif child.start_at <= monotonic():
                    self.start(child)

    def start(self, child: ChildProcess) -> None:
        is_first, child.team.has_started_any = not child.team.has_started_any, True
        try:
            child.start(self.command(child.number, is_first))
        except OSError as error:
            pause = child.pause_after_death()
            child.start_at = monotonic() + pause
            logger.error("No worker can be started: %s", error)

    def sleep(self) -> None:
        """Sleep until a worker sends or ends, a signal comes, or time is up."""
        poll = select.poll()
        poll.register(self.bell.read_end, select.POLLIN)
        pipes = {}
        for child in self.children:
            if child.process and child.pipe and child.pipe.is_open:
                poll.register(child.pipe.socket, select.POLLIN)
                pipes[child.pipe.socket.fileno()] = child.pipe
        for descriptor, _ in poll.poll(self.milliseconds_to_next_event):
            if descriptor in pipes:
                pipes[descriptor].hear()
            else:
                self.bell.clear()

    @property
    def milliseconds_to_next_event(self) -> float:
        startable = self.startable
        events = [
            child.next_event
            for child in self.children
            if child.process is not None or child in startable
        ]
        wait = min(events, default=math.inf) - monotonic()
        return min(max(wait, 0.0), LONGEST_SLEEP) * 1000

    def reap(self) -> None:
        """Remember which workers have become ready, did not obey, or have ended."""
        for child in self.children:
            if monotonic() >= child.kill_at:
                child.kill()
            pid = child.process.pid if child.process else None
            code = child.ended()
            if child.stats is not None:
                child.team.is_proven = True
            if code is not None:
                self.stats.add(child.stats or RunStats())
                self.follow(child, pid, code)

    def follow(self, child: ChildProcess, pid: int | None, code: int) -> None:
        """Decide whether and when another process follows one that has ended."""
        if self.signals:
            self.remember_end(code)
        elif child.is_reloading or code == ExitCode.RESTART:
            child.start_at = monotonic()
        elif self.waits_for_changes and child.stats is None:
            child.start_at = math.inf
            logger.warning("Worker pid=%s could not start: waiting for a change", pid)
        elif code > 0 and not child.team.is_proven:
            logger.error("Worker pid=%s could not start", pid)
            self.go_on_without(child)
        elif self.is_finite and code in ENDED_BY_ITSELF:
            self.remember_end(code)
        elif code in ENDED_BY_ITSELF and code != ExitCode.LOST:
            child.start_at = monotonic()
        else:
            pause = child.pause_after_death()
            child.start_at = monotonic() + pause
            logger.error(
                "Worker pid=%s died (%s), another one follows in %.1f s",
                pid,
                f"signal {-code}" if code < 0 else f"exit code {code}",
                pause,
            )

    def go_on_without(self, child: ChildProcess) -> None:
        """Try again later if other teams may work meanwhile, or else stop."""
        child.team.has_failed = True
        if all(team.has_failed and not team.is_proven for team in self.teams):
            self.worst = ExitCode.LOST
            self.stop()
        elif self.is_finite:
            self.worst = max(self.worst, ExitCode.LOST)
        else:
            child.start_at = monotonic() + child.pause_after_death()

    def remember_end(self, code: int) -> None:
        """Remember the worst code: a worker that crashed or was killed left jobs."""
        if code == ExitCode.RESTART:
            code = ExitCode.STOPPED
        elif code not in ExitCode.__members__.values():
            many = self.signals > 1
            code = ExitCode.SECOND_SIGNAL if many else ExitCode.GRACE_OVER
        self.worst = max(self.worst, ExitCode(code))


@contextmanager
def stopping_signals_blocked() -> Iterator[None]:
    """Block signals in a child until it can handle them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
