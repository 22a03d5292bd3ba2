"""The children of one worker: started when needed, used again, ended when idle."""

import logging
import select
import sys
import threading
from collections import Counter
from math import inf
from pathlib import PurePath
from time import monotonic, sleep
from typing import Any, NamedTuple

from django.conf import LazySettings
from django.conf import settings as django_settings
from django.db import connections

from ...conf import settings
from .child_process import CannotStart, ChildProcess
from .frames import Garbled
from .keeper import descendants, proportional

logger = logging.getLogger("pgjobs.worker")

IDLE_SECONDS = 60.0  # until an idle child ends
TICK_SECONDS = 1.0  # between two looks at idle children
FLOOD_SECONDS = 0.002  # of rest after some output, so that a flood costs little
LEAVE_SECONDS = 5.0  # for a child to end by itself
CLOSE_SECONDS = 2.0  # and when its worker ends
KILL_SECONDS = 5.0  # for children to be gone as the worker stops
KILL_PAUSE = 0.005
GROWTH = 50_000_000  # bytes beyond its start, at which an idle child is replaced
CONNECTING = ("NAME", "USER", "PASSWORD", "HOST", "PORT")
SETTINGS_NEEDED = (
    "Tasks with isolated=True need a settings module, which their processes import: "
    "the settings of this process were made by settings.configure()."
)


class Figures(NamedTuple):
    """What a worker says of its children at the moment, and of those that died."""

    busy: int
    idle: int
    memory: int  # bytes, with what they have started
    deaths: Counter[str]  # of those that ran a job, by their causes


class Pool:
    def __init__(self, host: Any):
        self.host = host  # the executor
        self.database: str = host.database
        self.most_jobs = settings.ISOLATED_JOBS_PER_CHILD
        self.lock = threading.Lock()
        self.all: set[ChildProcess] = set()
        self.idle: list[ChildProcess] = []  # that which was used last comes last
        self.deaths: Counter[str] = Counter()
        self.leaving: dict[ChildProcess, float] = {}  # and when they are killed
        self.thread: threading.Thread | None = None
        self.is_closed = False

    # For the slots

    def take(self) -> ChildProcess:
        """Return an idle child, or a new one; raises CannotStart."""
        while True:
            with self.lock:
                child = self.idle.pop() if self.idle else None
            if child is None:
                return self.start_another()
            if not self.has_gone(child):
                return child
            self.forget(child)

    def start_another(self) -> ChildProcess:
        try:
            child = ChildProcess(self.hello())
        except OSError as error:
            raise CannotStart(str(error)) from error
        with self.lock:
            self.all.add(child)
            self.watch()
        try:
            if self.is_closed:
                raise CannotStart("The worker stops.")
            child.start()
        except BaseException:
            self.forget(child)
            raise
        logger.info("Child pid=%s started", child.pid)
        return child

    def hello(self) -> dict[str, Any]:
        """Return what a child must know, passwords too: it goes through a pipe."""
        databases = {
            alias: {
                name: str(value) if isinstance(value, PurePath) else value
                for name in CONNECTING
                if (value := connections[alias].settings_dict.get(name)) is not None
            }
            for alias in connections
        }
        return {
            "path": [str(path) for path in sys.path],
            "settings": settings_module(),
            "databases": databases,
            "database": self.database,
        }

    def give_back(self, child: ChildProcess, is_spent: bool) -> None:
        """Let other jobs have the child, unless it has run enough, or grown."""
        child.jobs += 1
        child.idle_since = monotonic()
        has_grown = child.size - child.first_size > GROWTH
        if is_spent or has_grown or child.jobs >= self.most_jobs or self.is_closed:
            self.leave(child, LEAVE_SECONDS)
        else:
            with self.lock:
                self.idle.append(child)

    def leave(self, child: ChildProcess, seconds: float) -> None:
        """Let a child end by itself; the pool's thread reaps it."""
        with self.lock:
            self.leaving[child] = monotonic() + seconds
        try:
            child.frames.send("end")
        except OSError:
            child.kill()

    def forget(self, child: ChildProcess) -> None:
        """Reap a child that has ended, or that must end now."""
        child.kill_now()
        with self.lock:
            self.all.discard(child)
            self.leaving.pop(child, None)
        child.close()

    def figures(self) -> Figures:
        """Return how many children there are, and what they take."""
        with self.lock:
            children, idle = list(self.all), len(self.idle)
        keepers = [child.keeper.pid for child in children]
        pids = [pid for keeper in keepers for pid in (keeper, *descendants(keeper))]
        memory = sum(map(proportional, pids))
        return Figures(len(children) - idle, idle, memory, self.deaths.copy())

    # On the thread of the pool

    def show(self) -> None:
        """Let the worker's next sign of life store the figures."""
        self.host.row["children"] = self.figures()._asdict()

    def watch(self) -> None:
        if self.thread is None:
            self.thread = threading.Thread(
                target=self.run, name="pgjobs-children", daemon=True
            )
            self.thread.start()

    def run(self) -> None:
        """Read what children write, and reap those that end while they are idle."""
        look_at = show_at = 0.0
        while True:
            with self.lock:
                children = list(self.all)
                if not children:
                    self.thread = None
            if not children or monotonic() >= show_at:
                self.show()
                show_at = monotonic() + settings.HEARTBEAT_INTERVAL / 2
            if not children:
                return
            try:
                self.read(children)
                if monotonic() >= look_at:
                    self.look()
                    look_at = monotonic() + TICK_SECONDS / (5 if self.leaving else 1)
            except Exception:  # the outputs of the others must be read
                logger.exception("Looking after children failed")
                sleep(TICK_SECONDS)

    def read(self, children: list[ChildProcess]) -> None:
        outputs = {
            output.read_end: output for child in children for output in child.outputs
        }
        poll = select.poll()
        for descriptor in outputs:
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        seconds = TICK_SECONDS / (5 if self.leaving else 1)
        for descriptor, event in poll.poll(seconds * 1000):
            if event & select.POLLIN:
                outputs[descriptor].read()
            else:  # the child has closed it
                outputs[descriptor].close()
        sleep(FLOOD_SECONDS)

    def look(self) -> None:
        """End children without work, and reap those that have ended."""
        now = monotonic()
        with self.lock:
            old = [c for c in self.idle if now - c.idle_since >= IDLE_SECONDS]
            gone = [child for child in self.idle if self.has_gone(child)]
            ended = [child for child in self.leaving if self.has_gone(child)]
            late = [child for child, at in self.leaving.items() if now >= at]
            self.idle = [c for c in self.idle if c not in old and c not in gone]
        for child in {*gone, *ended, *late}:
            self.forget(child)
        for child in set(old) - set(gone):
            self.leave(child, LEAVE_SECONDS)

    def has_gone(self, child: ChildProcess) -> bool:
        """Whether a child that runs no job has ended."""
        if child.has_ended:
            return True
        try:
            for _ in child.heard(until=-inf):
                pass  # nothing is asked of it
            child.wait(-inf)
        except Garbled:
            child.kill_now()
        return child.has_ended

    def kill_running(self) -> int:
        """Kill what runs in children, before it is released; return how many jobs."""
        with self.host.lock:
            running = list(self.host.running.items())
        killed = {token for token, each in running if hasattr(each, "kill")}
        for token, execution in running:
            if token in killed:
                execution.kill(None)
        until = monotonic() + KILL_SECONDS
        while killed & self.host.running.keys() and monotonic() < until:
            sleep(KILL_PAUSE)
        return len(killed)

    def close(self) -> None:
        """End all children; those that still run a job are killed."""
        with self.lock:
            self.is_closed = True
            idle, self.idle = self.idle, []
            running = self.all - set(idle) - self.leaving.keys()
        for child in running:
            child.kill()
        for child in idle:
            self.leave(child, CLOSE_SECONDS)
        until = monotonic() + CLOSE_SECONDS
        while self.leaving and monotonic() < until:
            self.look()
            sleep(0.01)
        for child in [*self.leaving]:
            self.forget(child)


def settings_module() -> str:
    """Return the name of the project's settings; raises CannotStart."""
    holder: Any = django_settings
    if isinstance(holder, LazySettings):
        holder = holder._wrapped
    while getattr(holder, "SETTINGS_MODULE", None) is None:
        holder = getattr(holder, "default_settings", None)
        if holder is None:
            raise CannotStart(SETTINGS_NEEDED)
    return holder.SETTINGS_MODULE
