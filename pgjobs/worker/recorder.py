"""Storing the outcomes and reports of the worker's jobs, and announcing their ends.

The statement that claims also stores successes. All other outcomes are stored here, and
so are successes that the claim could not store.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from math import inf
from time import monotonic, sleep

import psycopg
from psycopg.errors import LockNotAvailable

from ..base.database_errors import (
    is_lost,
    is_of_row,
    is_of_some_rows,
    message_of,
    passes_by_itself,
    text_of,
)
from ..base.texts import storable
from ..conf import FINISHED
from ..queue import recording
from ..queue.claiming import ClaimedJob
from ..queue.recording import Completed, Outcome, Recorded, Success, Unsuccessful
from ..tasks.running_job import RunningJob
from .connections.backoff import Backoff
from .in_flight import InFlight
from .job_log import is_heard, log, log_failure
from .observer import AttemptEnd, WorkerObserver
from .session import Session
from .slots.executor import Executor
from .slots.outcomes import LONGEST_REASON
from .upkeep.announcer import Announcer
from .upkeep.chore import FIRST_PAUSE, LONGEST_PAUSE, Effects

logger = logging.getLogger("pgjobs.worker")

GATHER_SECONDS = 0.00005
REPORT_SECONDS = 0.25  # between two writes of progress
ASK_FOR_LOCKED_SECONDS = 1.0  # between two checks of rows that were locked


class Recorder:
    def __init__(
        self,
        session: Session,
        executor: Executor,
        in_flight: InFlight,
        observers: Sequence[WorkerObserver],
        announcer: Announcer,
        apply: Callable[[Effects], None],
    ):
        self.connection = session.connection
        self.worker_id = session.id
        self.options = session.options
        self.executor = executor
        self.in_flight = in_flight
        self.observers = observers
        self.announcer = announcer
        self.apply = apply  # called with what a record has changed
        self.finished = 0  # jobs
        self.next_report = self.ask_for_locked_at = 0.0  # monotonic times
        self.backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self.report_backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)

    def gather(self) -> None:
        """Take the outcomes of the slots; wait a moment for those about to end.

        The first slot that rings wakes the loop, while other slots are about to end
        jobs that are just as short. Without the moment, a commit would carry one
        outcome.
        """
        ended = len(self.in_flight.unrecorded) + len(self.executor.outcomes)
        if 0 < ended < min(len(self.in_flight.jobs), self.options.slots):
            sleep(GATHER_SECONDS)
        if self.executor.outcomes:
            self.in_flight.put(self.executor.take_outcomes())

    def record(self) -> None:
        """Store the outcomes and reports that a claim does not store."""
        now = monotonic()
        if self.in_flight.failing and not self.backoff.is_waiting(now):
            self.in_flight.failing.clear()
        if self.in_flight.locked and now >= self.ask_for_locked_at:
            self.skip_locked()
        if self.executor.reporting:
            self.store_reports(now)
        if self.in_flight.unrecorded:
            if completed := self.in_flight.recordable_as(Completed):
                self.close_completed(completed)
            if unsuccessful := self.in_flight.recordable_as(Unsuccessful):
                waits = ["waiting_for" in (each.stores or ()) for each in unsuccessful]
                # A backoff may be shorter than the sleep of the loop.
                effects = Effects(scheduled=not all(waits), suspended=any(waits))
                self.apply_end_of(unsuccessful, effects)
                self.store(unsuccessful, self.record_these)

    @property
    def next_event(self) -> float:
        """Return when there is something to store (monotonic time)."""
        if self.executor.outcomes or self.in_flight.recordable:
            return 0.0
        events = [inf]
        if self.in_flight.locked:
            events.append(self.ask_for_locked_at)
        if self.in_flight.failing:
            events.append(self.backoff.retry_at)
        if self.executor.reporting:
            events.append(self.next_report)
        return min(events)

    # Outcomes

    def close_completed(self, completed: Sequence[Completed]) -> None:
        """Close atomic jobs, whose transaction has recorded their success."""
        # They may have enqueued other jobs.
        self.apply_end_of(completed, Effects(ready=True))
        tokens = [outcome.lease_token for outcome in completed]
        self.close(completed, dict.fromkeys(tokens, "SUCCESSFUL"))

    def record_successes(self, successes: Sequence[Success]) -> None:
        """Store successes that the claim could not store."""
        self.apply_end_of(successes, Effects())
        self.store(successes, self.record_these_successes)

    def record_these(self, outcomes: Sequence[Unsuccessful]) -> list[Recorded]:
        execute, name = self.connection.execute, self.options.name
        return recording.record(execute, self.worker_id, name, outcomes)

    def record_these_successes(self, successes: Sequence[Success]) -> list[Recorded]:
        if self.in_flight.deletable:
            return recording.deleting().record(self, successes)
        execute, name = self.connection.execute, self.options.name
        return recording.record_successes(execute, self.worker_id, name, successes)

    def apply_end_of(self, outcomes: Sequence[Outcome], effects: Effects) -> None:
        """Apply effects; other jobs may have waited for the end of these."""
        if self.in_flight.has_keys(outcomes):
            effects |= Effects(waiting=True)
        self.apply(effects)

    def store(
        self, outcomes: Sequence, record: Callable[[Sequence], list[Recorded]]
    ) -> None:
        """Store outcomes and close them; keep for later those that fail."""
        try:
            self.store_by_halves(outcomes, record)
        except LockNotAvailable as error:
            if self.found_locked(outcomes, error):
                return
            # It is not their rows that another transaction holds, but what one of them
            # makes: the unique key of its follow-up.
            if len(outcomes) == 1:
                self.keep_for_later(outcomes, error)
            else:
                middle = len(outcomes) // 2
                self.store(outcomes[:middle], record)
                self.store(outcomes[middle:], record)
        else:
            if not self.in_flight.failing:
                self.backoff.passed()

    def store_by_halves(
        self, outcomes: Sequence, record: Callable[[Sequence], list[Recorded]]
    ) -> None:
        """Store outcomes at once, or by halves, down to the one that raises."""
        try:
            recorded = record(outcomes)
        except LockNotAvailable:
            raise
        except psycopg.Error as error:
            if is_lost(error):
                raise
            if len(outcomes) > 1 and is_of_some_rows(error):
                middle = len(outcomes) // 2
                self.store_by_halves(outcomes[:middle], record)
                self.store_by_halves(outcomes[middle:], record)
            elif is_of_row(error):
                self.store_failure(outcomes[0], error)
            else:
                self.keep_for_later(outcomes, error)
        else:
            self.close(outcomes, dict(recorded))

    def store_failure(self, outcome: Outcome, error: psycopg.Error) -> None:
        """Store an outcome without the characters that PostgreSQL may lack.

        If that fails, too, fail the job: its outcome cannot be stored.
        """
        for substitute in substitutes(outcome, error):
            try:
                recorded = self.record_these([substitute])
            except psycopg.Error as second:
                if is_lost(second):
                    raise
            else:
                self.close([substitute], dict(recorded))
                return
        self.keep_for_later([outcome], error)

    def keep_for_later(self, outcomes: Sequence[Outcome], error: psycopg.Error) -> None:
        """Try again later, after longer and longer pauses, to store outcomes."""
        now = monotonic()
        if not self.backoff.is_waiting(now):  # once for all parts of a batch
            self.backoff.failed(now)
        self.in_flight.failing |= {outcome.lease_token for outcome in outcomes}
        ids = ", ".join(str(outcome.id) for outcome in outcomes)
        logger.log(
            logging.WARNING if passes_by_itself(error) else logging.ERROR,
            "Recording failed, the next try in %.1f s: jobs=%s: %s",
            self.backoff.retry_at - now,
            ids,
            text_of(error),
        )

    def found_locked(self, outcomes: Sequence[Outcome], error: psycopg.Error) -> bool:
        """Keep outcomes whose rows are locked for later; return if there are any."""
        if not isinstance(error, LockNotAvailable):
            return False
        self.skip_locked()
        kept = self.in_flight.kept
        return any(outcome.lease_token in kept for outcome in outcomes)

    def skip_locked(self) -> None:
        """Keep for later the outcomes whose rows another transaction holds."""
        self.ask_for_locked_at = monotonic() + ASK_FOR_LOCKED_SECONDS
        outcomes = self.in_flight.unrecorded
        ids = [outcome.id for outcome in outcomes]
        try:
            self.in_flight.locked = recording.locked(
                self.connection.execute, self.worker_id, ids
            )
        except psycopg.Error as error:
            if is_lost(error):
                raise
            self.keep_for_later(outcomes, error)

    # What became of the jobs

    def close(self, outcomes: Sequence[Outcome], status_of: dict[int, str]) -> None:
        """Close outcomes that are stored, or whose job belongs to another owner.

        This logs how the attempts ended, and sends their signals.
        `status_of`: the present status of their jobs, by lease token.
        """
        missing = [
            outcome for outcome in outcomes if outcome.lease_token not in status_of
        ]
        if missing:
            before = self.recorded_before(missing)
            if before is None:
                outcomes = [outcome for outcome in outcomes if outcome not in missing]
            else:
                status_of |= before
        ends = self.in_flight.close(outcomes, status_of)
        tells_all = is_heard(logging.INFO)
        for end in ends:
            if tells_all or end.status != "SUCCESSFUL":
                log_end(end)
            if end.status in FINISHED:
                self.finished += 1
        self.announcer.ended(ends)
        stored = [end for end in ends if end.status is not None]
        if stored:
            for observer in self.observers:
                observer.recorded(stored)

    def recorded_before(self, outcomes: Sequence[Outcome]) -> dict[int, str] | None:
        """Return which outcomes were stored although the answer was lost.

        Returns None if the worker cannot ask at present.
        """
        try:
            before = dict(recording.recorded_before(self.connection.execute, outcomes))
            if self.in_flight.in_doubt:
                before |= recording.deleting().deleted_before(self, outcomes)
            return before
        except psycopg.Error as error:
            if is_lost(error):
                raise
            self.keep_for_later(outcomes, error)
            return None

    # Reports

    def store_reports(self, now: float) -> None:
        """Store what jobs report, at most once in REPORT_SECONDS."""
        reporting = self.executor.reporting
        # The last report of a job that ended can only be stored before its outcome.
        is_last = any(
            outcome.lease_token in reporting for outcome in self.in_flight.unrecorded
        )
        if is_last or now >= self.next_report:
            self.next_report = now + REPORT_SECONDS
            if taken := self.executor.take_reports():
                self.store_these_reports(taken)

    def store_these_reports(self, taken: Sequence[tuple[RunningJob, dict]]) -> None:
        """Store reports; give those that could not be stored back to their jobs."""
        stored: set[int] = set()
        try:
            reports = [report for _, report in taken]
            stored = recording.report(self.connection.execute, self.worker_id, reports)
            self.report_backoff.passed()
        except psycopg.Error as error:
            if is_lost(error):
                raise
            if is_of_row(error) and len(taken) > 1:
                middle = len(taken) // 2
                self.store_these_reports(taken[:middle])
                self.store_these_reports(taken[middle:])
                taken = ()
            elif is_of_row(error):
                self.store_in_ascii(*taken[0], error)
                taken = ()
            else:
                self.postpone_reports(error)
        finally:
            for job, report in taken:
                if job.id not in stored and job.lease_token in self.in_flight.jobs:
                    job.put_back(report)

    def store_in_ascii(
        self, job: RunningJob, report: dict, error: psycopg.Error
    ) -> None:
        """Store a report with escapes, for a database of another encoding."""
        if (plain := recording.report_in_ascii(report)) == report:
            return log_lost_report(job, error)
        return self.store_these_reports([(job, plain)])

    def postpone_reports(self, error: psycopg.Error) -> None:
        now = monotonic()
        pause = self.report_backoff.failed(now)
        self.next_report = now + pause
        logger.error(
            "Storing reports failed, the next try in %.1f s: %s", pause, text_of(error)
        )


def substitutes(outcome: Outcome, error: psycopg.Error) -> Iterator[Unsuccessful]:
    """Yield what may be stored in place of an outcome that cannot be."""
    if isinstance(outcome, Unsuccessful) and outcome != outcome.in_ascii():
        yield outcome.in_ascii()
    reason = storable(
        f"Its outcome cannot be stored: {message_of(error)}", LONGEST_REASON
    )
    yield Unsuccessful(outcome.id, outcome.lease_token, "FAIL", reason, message=reason)


def log_lost_report(job: RunningJob, error: psycopg.Error) -> None:
    logger.error("Job id=%s: its report cannot be stored: %s", job.id, text_of(error))


def log_end(end: AttemptEnd) -> None:
    job, status, outcome, _ = end
    if status is None:
        log(
            logging.WARNING,
            job,
            "lost: it was rescued, ended or deleted meanwhile; its outcome is void",
        )
    elif isinstance(outcome, Unsuccessful):
        log_unsuccessful(job, status, outcome)
    else:
        log(logging.INFO, job, status, status=status)


def log_unsuccessful(job: ClaimedJob, status: str, outcome: Unsuccessful) -> None:
    """Log a failure with its traceback if it is the job's last, and only then."""
    text = f"{status}: {outcome.reason}"
    if status == "FAILED":
        log_failure(job, text, outcome, status=status)
    elif outcome.verdict == "RETRY":
        log(logging.WARNING, job, text, status=status)
    else:
        log(logging.INFO, job, text, status=status)
