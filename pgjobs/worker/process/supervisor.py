"""The supervisor: starts workers, replaces those that end, and outlives them all.

It runs no jobs and has no connection to the database. Its workers are fresh processes
(no fork), each at the end of a line: orders to stop go down, what was done comes up,
and when either end dies the other one notices.
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
from ..loop import ExitCode
from ..observer import Tally
from .pipe import Lifeline

logger = logging.getLogger("pgjobs.supervisor")

STOPPING_SIGNALS = (signal.SIGTERM, signal.SIGINT)
SHORTEST_PAUSE = 0.5  # seconds before another worker follows one that died
LONGEST_PAUSE = 30.0
HEALTHY_SECONDS = 30.0  # who lived so long did not die of how it was started
OBEY_SECONDS = 5.0  # beyond its grace, for a worker to end before it is killed
LONGEST_SLEEP = 3600.0  # poll() overflows after some weeks
# After RESTART another one follows at once, after a signal or another code later.
ENDED_BY_ITSELF = (
    ExitCode.STOPPED,
    ExitCode.LOST,
    ExitCode.GRACE_OVER,
    ExitCode.SECOND_SIGNAL,
)


class Line:
    """The supervisor's end of the line to one worker; see `lifeline.Lifeline`."""

    def __init__(self) -> None:
        self.socket, self.far_end = socket.socketpair()
        self.socket.setblocking(False)
        self.received = b""
        self.tally: Tally | None = None  # None: the worker is not ready yet
        self.is_open = True

    def order(self, level: int) -> None:
        try:
            self.socket.send(str(level).encode())
        except OSError:
            return  # it is gone, or has not read a hundred orders like this

    def hear(self) -> None:
        """Take what the worker has sent; the latest tally holds the former ones."""
        size = Lifeline.MESSAGE.size
        try:
            while data := self.socket.recv(65536):
                self.received += data
                complete = len(self.received) // size * size
                if complete:
                    latest = self.received[complete - size : complete]
                    self.tally = Tally(*Lifeline.MESSAGE.unpack(latest))
                    self.received = self.received[complete:]
            self.is_open = False
        except BlockingIOError:
            return
        except OSError:
            self.is_open = False


class Place:
    """The place of one worker: the process that has it, and when the next one does."""

    def __init__(self, number: int):
        self.number = number
        self.process: subprocess.Popen | None = None
        self.line: Line | None = None
        self.started_at = 0.0
        self.start_at: float | None = 0.0  # monotonic time; None: nobody follows
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
    def tally(self) -> Tally | None:
        """What the worker has done, also the last one; None: it was never ready."""
        return self.line.tally if self.line else None

    def start(self, command: list[str]) -> None:
        """Start a worker; raises OSError."""
        self.line = Line()
        self.started_at = monotonic()
        self.start_at = None
        self.kill_at = math.inf
        self.is_reloading = False
        with self.line.far_end as far_end, stopping_signals_blocked():
            self.process = subprocess.Popen(
                [*command, "--child", str(far_end.fileno())],
                pass_fds=[far_end.fileno()],
            )

    def order(self, level: int, patience: float) -> None:
        """Order the worker to stop; it is killed if it has not after the patience."""
        if self.process is not None and self.line is not None:
            self.line.order(level)
            self.kill_at = min(self.kill_at, monotonic() + patience)

    def kill(self) -> None:
        if self.process is not None:
            logger.error("Worker pid=%s does not end and is killed", self.process.pid)
            self.kill_at = math.inf
            self.process.kill()

    def ended(self) -> int | None:
        """Return the exit code of the worker if it has ended, and leave the place."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        if self.line is not None:
            self.line.hear()
            self.line.socket.close()
        self.process = None
        return code

    def pause_after_death(self) -> float:
        """Return the wait before another start: longer with each quick death."""
        if monotonic() - self.started_at >= HEALTHY_SECONDS:
            self.quick_deaths = 0
        longest = min(SHORTEST_PAUSE * 2**self.quick_deaths, LONGEST_PAUSE)
        self.quick_deaths = min(self.quick_deaths + 1, 10)
        return longest * random.uniform(0.8, 1)


class Supervisor:
    """Keeps a number of workers running until it is asked to stop.

    `command`: returns how to start a worker, given its number and whether it is the
    very first one. `grace`: seconds that a worker may take to stop. `is_finite`:
    a worker that ends by itself has done its work. `max_time`: seconds after which
    none is started any more. `waits_for_changes`: the code may be broken for a while;
    who cannot start waits for `reload()`. `on_stopping` is called with the number of
    workers once they are asked to stop.
    """

    def __init__(
        self,
        command: Callable[[int, bool], list[str]],
        *,
        processes: int,
        grace: float,
        is_finite: bool = False,
        max_time: float = math.inf,
        waits_for_changes: bool = False,
        on_stopping: Callable[[int], None] = lambda workers: None,
    ):
        self.command = command
        self.places = [Place(number) for number in range(1, processes + 1)]
        self.grace = grace
        self.is_finite = is_finite
        self.end_at = monotonic() + max_time
        self.waits_for_changes = waits_for_changes
        self.on_stopping = on_stopping
        self.bell = Bell()
        self.signals = 0
        self.obeyed = 0  # signals that the workers were told of
        self.must_reload = False
        self.has_started_any = False
        self.is_proven = False  # a worker was ready: others can be, too
        self.worst = ExitCode.STOPPED
        self.tally = Tally()

    def run(self) -> ExitCode:
        """Return when the last worker has ended; how the worst of them did."""
        with self.handling_signals():
            while True:
                self.pass_signals_on()
                self.reload_if_asked()
                self.start_due()
                if all(place.is_over for place in self.places):
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
        running = sum(place.process is not None for place in self.places)
        if running and not self.obeyed:
            self.on_stopping(running)
        self.obeyed = level
        patience = OBEY_SECONDS + (self.grace if level == 1 else 0)
        for place in self.places:
            place.start_at = None
            place.order(level, patience)

    def reload_if_asked(self) -> None:
        if not self.must_reload:
            return
        self.must_reload = False
        for place in self.places:
            if place.process is not None:
                place.is_reloading = True
                place.order(1, self.grace + OBEY_SECONDS)
            elif place.start_at is not None:
                place.start_at = 0.0

    @property
    def startable(self) -> list[Place]:
        """The places that may be taken; one alone, until it is known to work."""
        may_all = self.is_proven or self.places[0].is_over
        return self.places if may_all else self.places[:1]

    def start_due(self) -> None:
        for place in self.startable:
            if place.process is None and place.start_at is not None:
                if self.has_started_any and monotonic() >= self.end_at:
                    place.start_at = None
                elif place.start_at <= monotonic():
                    self.start(place)

    def start(self, place: Place) -> None:
        is_first, self.has_started_any = not self.has_started_any, True
        try:
            place.start(self.command(place.number, is_first))
        except OSError as error:
            pause = place.pause_after_death()
            place.start_at = monotonic() + pause
            logger.error("No worker can be started: %s", error)

    def sleep(self) -> None:
        """Sleep until a worker, a signal or the time has something to say."""
        poll = select.poll()
        poll.register(self.bell.read_end, select.POLLIN)
        lines = {}
        for place in self.places:
            if place.process and place.line and place.line.is_open:
                poll.register(place.line.socket, select.POLLIN)
                lines[place.line.socket.fileno()] = place.line
        for descriptor, _ in poll.poll(self.milliseconds_to_next_event):
            if descriptor in lines:
                lines[descriptor].hear()
            else:
                self.bell.clear()

    @property
    def milliseconds_to_next_event(self) -> float:
        startable = self.startable
        events = [
            place.next_event
            for place in self.places
            if place.process is not None or place in startable
        ]
        wait = min(events, default=math.inf) - monotonic()
        return min(max(wait, 0.0), LONGEST_SLEEP) * 1000

    def reap(self) -> None:
        """Note who is ready, who does not obey and who has ended."""
        for place in self.places:
            if monotonic() >= place.kill_at:
                place.kill()
            pid = place.process.pid if place.process else None
            code = place.ended()
            if place.tally is not None:
                self.is_proven = True
            if code is not None:
                self.tally.add(place.tally or Tally())
                self.follow(place, pid, code)

    def follow(self, place: Place, pid: int | None, code: int) -> None:
        """Decide who takes the place of a worker that has ended, and when."""
        if self.signals:
            self.note_the_end(code)
        elif place.is_reloading or code == ExitCode.RESTART:
            place.start_at = monotonic()
        elif self.waits_for_changes and place.tally is None:
            place.start_at = math.inf
            logger.warning("Worker pid=%s could not start: waiting for a change", pid)
        elif code > 0 and not self.is_proven:
            logger.error("Worker pid=%s could not start", pid)
            self.worst = ExitCode.LOST
            self.stop()
        elif self.is_finite and code in ENDED_BY_ITSELF:
            self.note_the_end(code)
        elif code in ENDED_BY_ITSELF and code != ExitCode.LOST:
            place.start_at = monotonic()
        else:
            pause = place.pause_after_death()
            place.start_at = monotonic() + pause
            logger.error(
                "Worker pid=%s died (%s), another one follows in %.1f s",
                pid,
                f"signal {-code}" if code < 0 else f"exit code {code}",
                pause,
            )

    def note_the_end(self, code: int) -> None:
        """Remember the worst end; who was killed or crashed left jobs behind."""
        if code == ExitCode.RESTART:
            code = ExitCode.STOPPED
        elif code not in ExitCode.__members__.values():
            many = self.signals > 1
            code = ExitCode.SECOND_SIGNAL if many else ExitCode.GRACE_OVER
        self.worst = max(self.worst, ExitCode(code))


@contextmanager
def stopping_signals_blocked() -> Iterator[None]:
    """Let a process that is started here take no signal before it can handle it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
