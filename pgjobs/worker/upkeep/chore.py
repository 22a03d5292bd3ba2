"""What a chore is: something that a worker does now and then, for all or for itself."""

import logging
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf, isinf
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import psycopg

from ...base.database_errors import is_lost, passes_by_itself, text_of
from ..connections.backoff import Backoff, early
from ..connections.connection import OwnConnection
from ..observer import WorkerObserver
from ..options import WorkerOptions

if TYPE_CHECKING:
    from .admission import Admitting

logger = logging.getLogger("pgjobs.worker")

RESCUE_PER_HEARTBEAT = 0.4  # often enough to rescue within two heartbeats
FIRST_PAUSE = 0.5  # seconds after the first error of a chore; each next pause doubles
LONGEST_PAUSE = 60.0


@dataclass(frozen=True)
class Effects:
    """What a step of the worker has changed that matters to its loop."""

    ready: bool = False  # there are new READY jobs
    old_ready: bool = False  # READY jobs that were enqueued long ago
    scheduled: bool = False  # a job may be due before the next known one
    waiting: bool = False  # jobs that may be admitted
    undecided: bool = False  # jobs for which a worker must find dependencies
    expired: bool = False  # READY jobs that were not started in time
    suspended: bool = False  # jobs that wait for what may be there already
    in_doubt: bool = False  # a claim whose answer was lost
    finished: Sequence[int] = ()  # the ids of jobs that have ended

    def __or__(self, other: "Effects") -> "Effects":
        return Effects(
            ready=self.ready or other.ready,
            old_ready=self.old_ready or other.old_ready,
            scheduled=self.scheduled or other.scheduled,
            waiting=self.waiting or other.waiting,
            undecided=self.undecided or other.undecided,
            expired=self.expired or other.expired,
            suspended=self.suspended or other.suspended,
            in_doubt=self.in_doubt or other.in_doubt,
            finished=[*self.finished, *other.finished],
        )


NOTHING = Effects()


class WorkerContext(NamedTuple):
    """What chores may know of their worker."""

    id: int
    name: str
    database: str
    row: dict[str, Any]  # that the heartbeat stores
    options: WorkerOptions
    observers: Sequence[WorkerObserver]
    admitting: "Admitting"
    held: Callable[[], Iterable[int]]  # returns the lease tokens of its jobs
    held_ids: Callable[[], list[int]]  # and their ids
    cancel: Callable[[int], None]  # called with the lease token of a job


def when(condition: str) -> str:
    """Return the question of a chore that has something to do on this condition."""
    return f"CASE WHEN {condition} THEN 0 END"


class Timer:
    """Says when a recurring step is due; workers do not keep the same times."""

    def __init__(self, interval: float = inf, rare: float = inf):
        self.interval = interval  # seconds. With `inf` only `expect` makes it due
        self.usual, self.rare = interval, rare  # rare: while it rests
        self.due = inf if isinf(interval) else monotonic() + random.uniform(0, interval)
        self.is_put_off = False

    def is_due(self, now: float) -> bool:
        return now >= self.due

    def done(self, now: float, again_at_once: bool = False) -> None:
        self.due = now if again_at_once else now + early(self.interval)
        self.is_put_off = False

    def rest(self) -> None:
        """Leave this to another worker until `resume`, but for what is expected."""
        self.interval = self.rare
        self.done(monotonic())

    def resume(self, now: float) -> None:
        """Do this from now on; many that begin together do not all do it at once."""
        if self.interval != self.usual:
            self.interval = self.usual
            self.due = now + random.uniform(0, self.usual)

    def expect_in(self, seconds: float | None, now: float) -> None:
        """Expect something to do in so many seconds. None: nothing is known.

        A worker asks again before long.
        """
        if seconds is None or seconds > 0:
            longest = 2 * self.interval
            self.due = now + (longest if seconds is None else min(seconds, longest))
            self.is_put_off = True
        elif self.is_put_off:
            self.due = 0.0
            self.is_put_off = False


class Chore(Timer):
    """A step of the upkeep. An error postpones this chore, and nothing else."""

    name = ""  # its name in the log
    takes: tuple[str, ...] = ()  # the fields of WorkerContext with which it is made
    # An SQL expression that the survey asks: the seconds until there is something to
    # do, or NULL. It may be too short, but never too long. Without a question the chore
    # runs at its own interval.
    asks = ""
    for_all = False  # one worker does it for all, as it does what has a question
    makes_jobs = False  # not for a worker that claims no more
    woken_by = ""  # the field of Effects after which there is something to do
    channel = ""  # on which it is notified that there is something to do
    runs_at_end = False  # also when its worker ends

    def __init__(self, interval: float = inf):
        super().__init__(interval)
        self.backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)

    @classmethod
    def made_for(cls, worker: WorkerContext) -> Self:
        return cls(*(getattr(worker, name) for name in cls.takes))

    def run(self, connection: OwnConnection) -> Effects:
        """Do one batch, plan the next time, and return the effects."""
        raise NotImplementedError

    @property
    def next_event(self) -> float:
        return max(self.due, self.backoff.retry_at)

    def is_due(self, now: float) -> bool:
        return now >= self.next_event

    def is_expecting(self, now: float) -> bool:
        """Whether a worker that drains the queue must wait for this chore."""
        return False

    def expect(self) -> None:
        """Expect that there is something to do."""
        self.due = 0.0

    def hear(self, payload: str) -> None:
        """Take a notification on its channel."""
        self.expect()


class Upkeep:
    """The chores of a worker, in their order."""

    def __init__(self, *chores: Chore):
        self.chores = chores
        # A worker that claims no more leaves the others to other workers.
        self.last_chores = tuple(chore for chore in chores if not chore.makes_jobs)
        self.woken = [(chore.woken_by, chore) for chore in chores if chore.woken_by]
        self.heard = [chore for chore in chores if chore.channel]

    def __getitem__(self, name: str) -> Chore:
        return next(chore for chore in self.chores if chore.name == name)

    def due(self, now: float, is_stopping: bool) -> Iterator[Chore]:
        """Yield the due chores; a chore that runs may put off those after it."""
        # A busy worker asks hundreds of times a second, and mostly no chore is due. So
        # here and below the methods of those that are not due are not called.
        for chore in self.last_chores if is_stopping else self.chores:
            if now >= chore.due and chore.is_due(now):
                yield chore

    def next_event(self, is_stopping: bool) -> float:
        """Return when the next chore is due (monotonic time)."""
        earliest = inf
        for chore in self.last_chores if is_stopping else self.chores:
            if chore.due < earliest:
                earliest = min(earliest, chore.next_event)
        return earliest

    def is_expecting(self, now: float) -> bool:
        return any(chore.is_expecting(now) for chore in self.chores)

    def react_to(self, effects: Effects) -> None:
        """React to effects after which a chore finds something to do."""
        for field, chore in self.woken:
            if getattr(effects, field):
                chore.expect()

    def end(self, connection: OwnConnection) -> None:
        """Do for the last time, if that is possible now, what is done at the end."""
        for chore in self.chores:
            if chore.runs_at_end:
                with suppress(psycopg.Error):
                    attempt(chore, connection)

    def recovered(self) -> None:
        """Try again at once what failed: the database has been away."""
        for chore in self.chores:
            chore.backoff.passed()


def attempt(chore: Chore, connection: OwnConnection) -> Effects:
    """Run a chore; log and postpone it if it fails.

    Raises psycopg.Error if the database is lost.
    """
    try:
        effects = chore.run(connection)
    except Exception as error:
        if is_lost(error):
            raise
        postpone(chore, error)
        return NOTHING
    chore.backoff.passed()
    return effects


def postpone(chore: Chore, error: Exception) -> None:
    pause = chore.backoff.failed(monotonic())
    logger.log(
        logging.WARNING if passes_by_itself(error) else logging.ERROR,
        "Chore name=%s failed, the next try in %.1f s: %s",
        chore.name,
        pause,
        text_of(error),
        exc_info=sqlstate_of(error) is None,
    )


def sqlstate_of(error: BaseException) -> str | None:
    return getattr(error, "sqlstate", None)
