"""What a chore is: something that a worker does now and then, for all or for itself."""

import logging
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isinf
from time import monotonic

from ...base.database_errors import is_lost, passes_by_itself, text_of
from ..connections.connection import OwnConnection
from ..connections.faults import Backoff

logger = logging.getLogger("pgjobs.worker")

RESCUE_PER_HEARTBEAT = 0.4  # often enough to rescue within two heartbeats
FIRST_PAUSE = 0.5  # seconds after the first error of a chore; each next pause doubles
LONGEST_PAUSE = 60.0
MOST_TURNS = 50  # how many workers, at most, do a chore by turns


@dataclass(frozen=True)
class Effects:
    """What a step of the worker has changed that matters to its loop."""

    ready: bool = False  # there are new READY jobs
    old_ready: bool = False  # READY jobs that were enqueued long ago
    scheduled: bool = False  # a job may be due before the next known one
    waiting: bool = False  # jobs that may be admitted
    undecided: bool = False  # jobs for which a worker must find dependencies
    expired: bool = False  # READY jobs that were not started in time
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
            in_doubt=self.in_doubt or other.in_doubt,
            finished=[*self.finished, *other.finished],
        )


NOTHING = Effects()


class Timer:
    """Says when a recurring step is due; workers do not keep the same times."""

    def __init__(self, interval: float = inf):
        self.interval = interval  # seconds. With `inf` only `expect` makes it due
        self.turns = 1  # of how many intervals this worker takes one
        self.due = inf if isinf(interval) else monotonic() + random.uniform(0, interval)
        self.is_put_off = False

    def is_due(self, now: float) -> bool:
        return now >= self.due

    def done(self, now: float, again_at_once: bool = False) -> None:
        wait = self.turns * self.interval * random.uniform(0.8, 1)
        self.due = now if again_at_once else now + wait
        self.is_put_off = False

    def take_turns(self, workers: int, now: float) -> None:
        """Do this by turns with all living workers, together as often as one would.

        The loops of the others may be stuck, so a worker does not count on many.
        """
        turns = min(max(workers, 1), MOST_TURNS)
        if now < self.due < inf:
            # Many that start together do not all begin with it, either.
            self.due = now + (self.due - now) * turns / self.turns
        self.turns = turns

    def note(self, there_is_something: bool, now: float) -> None:
        """Note whether there is anything to do; a worker asks again before long."""
        if not there_is_something:
            self.due = now + 2 * self.interval
        elif self.is_put_off:
            self.due = 0.0
        self.is_put_off = not there_is_something


class Chore(Timer):
    """A step of the upkeep. An error postpones this chore, and nothing else."""

    name = ""  # its name in the log
    makes_jobs = False  # not for a worker that claims no more

    def __init__(self, interval: float = inf):
        super().__init__(interval)
        self.backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)

    def run(self, connection: OwnConnection) -> Effects:
        """Do one batch, plan the next time, and return the effects."""
        raise NotImplementedError

    @property
    def next_event(self) -> float:
        return max(self.due, self.backoff.retry_at)

    def is_due(self, now: float) -> bool:
        return super().is_due(now) and not self.backoff.is_waiting(now)

    def is_expecting(self, now: float) -> bool:
        """Whether a worker that drains the queue must wait for this chore."""
        return False

    def expect(self) -> None:
        """Note that there is something to do."""
        self.due = 0.0


class Upkeep:
    """The chores of a worker, in their order."""

    def __init__(self, *chores: Chore):
        self.chores = chores
        # A worker that claims no more leaves the others to other workers.
        self.last_chores = tuple(each for each in chores if not each.makes_jobs)

    def __getitem__(self, name: str) -> Chore:
        return next(chore for chore in self.chores if chore.name == name)

    def wanted(self, is_stopping: bool) -> Sequence[Chore]:
        """Return the chores of a worker that claims jobs, or of one that stops."""
        return self.last_chores if is_stopping else self.chores

    def due(self, now: float, is_stopping: bool) -> Iterator[Chore]:
        """Yield the due chores; a chore that runs may put off those after it."""
        # A busy worker asks hundreds of times a second, and mostly no chore is due. So
        # the methods of those that are not due are not called.
        for each in self.wanted(is_stopping):
            if now >= each.due and each.is_due(now):
                yield each

    def has_work(self, now: float, is_stopping: bool) -> bool:
        return any(self.due(now, is_stopping))

    def next_event(self, is_stopping: bool) -> float:
        """Return when the next chore is due (monotonic time)."""
        return min(each.next_event for each in self.wanted(is_stopping))

    def is_expecting(self, now: float) -> bool:
        return any(chore.is_expecting(now) for chore in self.chores)

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
