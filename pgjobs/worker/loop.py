"""The loop of a worker: record, promote, claim; then sleep until something happens.

One turn takes one round trip where nothing but successes is to be recorded. While
it is on its way outcomes gather for the next one, so that a busy worker commits
many at a time and an idle one commits at once.
"""

import contextlib
import logging
import os
import socket
from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from time import monotonic, sleep, time
from typing import Any, Literal

import psycopg

from ..conf import FINISHED, settings
from ..exceptions import DatabaseLost
from ..queue import admitting, claiming, recording, upkeep
from ..queue.claiming import ClaimedJob, HostUnits, Look
from ..queue.recording import Outcome, Setback, Success, release
from ..sql import statement
from ..tasks.running_job import RunningJob
from .claim_cursors import ClaimCursors
from .connections.bell import Bell
from .connections.connection import (
    OwnConnection,
    Watchdog,
    hold_session_lock,
    plan_once,
)
from .connections.faults import Faults
from .connections.heartbeat import Heartbeat
from .connections.listener import Listener
from .in_flight import Ledger
from .job_log import described, is_heard, log
from .lifetime import Lifetime
from .observer import Audience, Ending
from .options import WorkerOptions
from .poll_schedule import PollSchedule
from .slots.atomic import warn_of_long_transactions
from .slots.cleaning import watch_sessions
from .slots.executor import Executor
from .upkeep.admission import Admitting
from .upkeep.announcer import Announcer
from .upkeep.dependencies import Depending
from .upkeep.maintenance import Maintenance
from .upkeep.schedules import Scheduler

logger = logging.getLogger("pgjobs.worker")

STATEMENT_SECONDS = 30.0
GATHER_SECONDS = 0.00005
REPORT_SECONDS = 0.25  # between two writes of progress
ASK_FOR_LOCKED_SECONDS = 1.0  # between two looks whether rows are still locked
HEAR_SECONDS = 0.01  # between two looks of a busy loop at what was notified
LAST_SECONDS = 2.0  # for announcing the last jobs that ended
RELEASE_TRIES = 3
# Errors of what a statement does or reads; the connection is well.
BROKEN = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError)


class ExitCode(IntEnum):
    STOPPED = 0  # as asked: drained, a limit reached, or a signal and all jobs ended
    LOST = 1  # could not start, or lost its database for good
    GRACE_OVER = 3  # jobs were released that would not end in time
    SECOND_SIGNAL = 4  # jobs were released at once
    RESTART = 5  # the process has served its time; another one is to follow


class Loop:
    """One worker: claims jobs, hands them to its slots and records the outcomes."""

    def __init__(self, options: WorkerOptions, audience: Audience | None = None):
        self.options = options
        self.audience = audience or Audience()
        self.id = 0  # until it is registered
        self.bell = Bell()
        self.executor = Executor(options.slots, self.ring, options.database)
        self.ledger = Ledger()
        self.poll_schedule = PollSchedule(options.poll)
        self.cursors = ClaimCursors(options.poll, options.units is not None)
        self.admitting = Admitting()
        self.faults = Faults()
        self.lifetime = Lifetime(options, self.executor)
        self.stop_at: float | None = None  # end of the grace, once asked to stop
        self.finished = 0
        self.next_report = 0.0
        self.next_hearing = 0.0
        self.ask_for_locked_at = 0.0
        self.known_queues: set[str] = set()
        self.host = socket.gethostname()
        self.units = (
            None if options.units is None else HostUnits(self.host, options.units)
        )
        self.cancelling: deque[int] = deque()  # lease tokens
        # For those who probe the worker, see health.py.
        self.phase: Literal["starting", "running", "stopped"] = "starting"
        self.awake_at = monotonic()  # the latest turn, or when the next one is due
        self.last_claim_at: float | None = None
        self.is_nudged = False

    # Life

    def run(self) -> ExitCode:
        """Work until asked to stop; return how it ended.

        Raises psycopg.Error if the database is not there to begin with.
        """
        self.start()
        try:
            while not self.is_done:
                self.turn_or_wait()
                if self.is_out_of_time:
                    return self.abandon()
                self.sleep()
            is_drained = self.options.drain and self.poll_schedule.is_empty
            is_renewed = self.lifetime.is_to_be_renewed(is_drained)
            return ExitCode.RESTART if is_renewed else ExitCode.STOPPED
        except DatabaseLost:
            logger.critical("Worker name=%s gives up", self.options.name)
            return ExitCode.LOST
        finally:
            self.close()

    def start(self) -> None:
        watch_sessions()
        options = self.options
        self.watchdog = Watchdog()
        self.connection = OwnConnection(
            options.database,
            "loop",
            options.name,
            self.watchdog,
            STATEMENT_SECONDS,
            prepare=self.prepare,
        )
        row = self.worker_row()
        try:
            self.register(row)
        except BaseException:
            self.connection.close()
            self.watchdog.stop()
            raise
        self.heartbeat = Heartbeat(
            options, {**row, "id": self.id}, self.watchdog, self.asked_to_cancel
        )
        self.listener = Listener(
            options,
            self.id,
            self.bell,
            self.watchdog,
            lambda: not self.heartbeat.is_late,
            self.admitting.hear,
        )
        self.announcer = Announcer(options.database)
        self.maintenance = Maintenance(self.id)
        self.scheduler = Scheduler()
        self.depending = Depending()
        self.heartbeat.start()
        self.phase = "running"
        logger.info("Worker name=%s id=%s started", options.name, self.id)
        self.audience.started()

    def register(self, row: dict) -> None:
        self.id = self.connection.execute(statement("register_worker"), row)[0][0]
        hold_session_lock(self.connection, self.id)

    def ring(self) -> None:
        """Wake the loop for what was put down for it; from any thread."""
        self.listener.ring()

    def prepare(self, connection: OwnConnection) -> None:
        plan_once(connection)
        if self.id:  # not the first connection
            hold_session_lock(connection, self.id)

    def worker_row(self) -> dict:
        options = self.options
        return {
            "name": options.name,
            "host": self.host,
            "pid": os.getpid(),
            "queues": ",".join(options.queues or ()),
            "excluded": ",".join(options.excluded),
            "slots": options.slots,
            "units": options.units,
            "lease": settings.LEASE_DURATION,
            "heartbeat_interval": settings.HEARTBEAT_INTERVAL,
        }

    def stop(self) -> None:
        """Claim no more and end once the jobs have; safe in a signal handler."""
        self.lifetime.signals += 1
        self.bell.ring()

    def nudge(self) -> None:
        """Look at the queue now, as when the poll interval is over; from any thread."""
        self.is_nudged = True
        self.bell.ring()

    def close(self) -> None:
        """Leave; what still runs here is not this worker's any more."""
        self.phase = "stopped"
        if len(self.ledger):  # somebody wants it to end now
            self.announcer.stop(timeout=LAST_SECONDS)
        else:
            self.executor.stop()
            self.announcer.stop()
        self.heartbeat.stop()
        with contextlib.suppress(psycopg.Error):
            self.connection.execute(statement("leave"), {"id": self.id})
        self.connection.close()
        self.listener.close()
        self.watchdog.stop()
        logger.info("Worker name=%s stopped", self.options.name)

    @property
    def is_done(self) -> bool:
        if not self.ledger.is_empty:
            return False
        ends_when_idle = self.options.drain or self.lifetime.has_given_up
        is_idle = self.poll_schedule.is_empty and not (
            self.scheduler.is_due
            or self.depending.is_expecting
            or self.admitting.is_expecting
        )
        return self.lifetime.is_over or (ends_when_idle and is_idle)

    @property
    def is_out_of_time(self) -> bool:
        """Whether the running jobs must be given up."""
        signals = self.lifetime.signals
        if signals == 0:
            return False
        if self.stop_at is None:
            self.stop_at = monotonic() + self.options.grace
            if len(self.ledger):
                self.audience.stopping(len(self.ledger))
        over = signals > 1 or monotonic() >= self.stop_at
        return over and len(self.ledger) > 0

    # One turn

    def turn_or_wait(self) -> None:
        """Take a turn; what could not be stored is kept while the database is away."""
        self.awake_at = monotonic()
        try:
            try:
                self.turn()
            except psycopg.errors.LockNotAvailable:
                self.set_locked_aside()
        except psycopg.Error as error:
            self.maintenance.doubt()
            self.poll_schedule.wake()
            self.faults.met(error)
        else:
            if self.faults.since is not None:
                self.admitting.recovered()
            self.faults.passed()

    def turn(self) -> None:
        """Record outcomes, promote what is due and claim for the free slots."""
        self.pass_on_cancels()
        self.gather()
        if self.ledger.unrecorded:  # jobs have ended
            self.lifetime.weigh()
        if self.lifetime.is_cut_short:
            self.release_unstarted()
        if self.ledger.locked and monotonic() >= self.ask_for_locked_at:
            self.set_locked_aside()
        self.store_reports()
        self.settle_completed()
        self.record_setbacks()
        self.maintain()
        self.fire_schedules()
        self.hear()
        self.decide_dependencies()
        if monotonic() >= self.audience.due:
            self.audience.catch_up()
        successes = self.share_of(self.ledger.successes)
        # After a fault a statement has to prove that the database is back.
        is_wanted = successes or self.wants_to_look or self.admitting.is_due
        if is_wanted or self.faults.since is not None:
            self.record_and_claim(successes)
        if self.options.drain and self.poll_schedule.is_empty and self.ledger.is_empty:
            self.look_for_forgotten()

    def gather(self) -> None:
        """Take what the slots have put down; let those about to end come along.

        A slot that rings has the loop ahead of its neighbours, which hold jobs as
        short: the next commit would carry one outcome and leave the rest for another.
        """
        ended = len(self.ledger.unrecorded) + len(self.executor.outcomes)
        if 0 < ended < min(len(self.ledger), self.options.slots):
            sleep(GATHER_SECONDS)
        self.ledger.put(self.executor.take_outcomes())

    @property
    def share(self) -> int:
        """How many of the jobs that the worker may hold are recorded at once."""
        slots = self.options.slots
        return max((slots + self.options.prefetch) // 2, slots)

    def share_of(self, successes: Sequence[Success]) -> Sequence[Success]:
        """Return those to record now.

        To record all that the worker may hold would leave the slots nothing to run
        until the turn has brought others.
        """
        if not self.room(len(successes)):
            return successes
        return successes[: self.share]

    def record_and_claim(self, successes: Sequence[Success]) -> None:
        # A worker that cannot listen hears of no job that waits.
        if self.poll_schedule.is_poll_due(monotonic()):
            self.admitting.expect()
        promoted = self.poll_schedule.is_promotion_due(monotonic())
        if promoted:
            self.promote()
        limit = self.room(len(successes))
        # A job that must run alone may stand anywhere.
        must_be_complete = self.poll_schedule.waits_for_idle
        look = self.cursors.next_look(limit, monotonic(), must_be_complete)
        claimed = self.claim(successes, limit, look)
        self.settle(successes, dict.fromkeys(claimed.recorded, "SUCCESSFUL"))
        if claimed.met_expired:
            self.announce_expired(upkeep.expire(self.connection.execute))
        if claimed.jobs:
            self.ledger.claim(claimed.jobs)
            self.executor.submit(claimed.jobs)
            self.lifetime.claimed += len(claimed.jobs)
            self.last_claim_at = time()
        self.note_look(look, claimed, limit, promoted)
        self.make_queues(claimed.jobs)

    def note_look(
        self, look: Look, claimed: claiming.Claimed, limit: int, promoted: bool
    ) -> None:
        """Decide where and when to look next; `limit`: how many jobs it was for."""
        if not limit:
            return
        now = monotonic()
        self.cursors.looked(look, claimed, limit, now)
        rewind_at = None if look.is_complete else self.cursors.rewind_at
        self.poll_schedule.plan(claimed, limit, promoted, now, rewind_at)

    def claim(
        self, successes: Sequence[Success], limit: int, look: Look
    ) -> claiming.Claimed:
        """Record successes and claim; in between admit, if jobs may wait for that."""
        how: dict[str, Any] = {
            "successes": successes,
            "limit": limit,
            "look": look,
            "queues": self.options.queues,
            "excluded": self.options.excluded,
            "is_idle": len(self.ledger) == len(successes),
            "units": self.units,
        }
        is_wanted = self.admitting.is_due or self.ledger.holds_back(successes)
        if not is_wanted or self.admitting.is_failing:
            claimed = claiming.record_and_claim(self.connection, self.id, **how)
            if claimed.has_keys:  # since the job was claimed
                self.admitting.expect()
            return claimed
        position, sweeps = self.admitting.begin()
        try:
            claimed, admission = admitting.admit_and_claim(
                self.connection.together, self.id, position, sweeps, **how
            )
        except BROKEN as error:
            self.admitting.failed()
            # Raises it again if it was not the admission's:
            claimed = claiming.record_and_claim(self.connection, self.id, **how)
            self.tell_of_admission(error)
            return claimed
        self.note_admission(admission, sweeps)
        return claimed

    def tell_of_admission(self, error: psycopg.Error) -> None:
        """Log the error of an admission: it must not stop all other jobs."""
        logger.error("Admission failed, plain jobs go on: %s", str(error).strip())

    def note_admission(self, admission: admitting.Admission, swept: bool) -> None:
        self.admitting.passed(admission, swept)
        self.announcer.finished(admission.ended)
        if admission.admitted:
            self.expect_old_jobs()
        if admission.met_undecided:
            self.depending.expect()

    def make_queues(self, claimed: Sequence[ClaimedJob]) -> None:
        """Give queues that are met for the first time the row to pause them by."""
        names = {job.queue_name for job in claimed} - self.known_queues
        if names:
            upkeep.make_queues(self.connection.execute, names)
            self.known_queues |= names

    def room(self, being_recorded: int = 0) -> int:
        """Return how many jobs may be claimed, once some outcomes are recorded."""
        held = len(self.ledger) - being_recorded
        if self.lifetime.is_over or self.heartbeat.is_silent:
            return 0
        if held and self.ledger.runs_suspect:
            return 0
        free = self.options.slots + self.options.prefetch - held
        if self.options.max_jobs is not None:
            free = min(free, self.options.max_jobs - self.lifetime.claimed)
        return max(free, 0)

    @property
    def wants_to_look(self) -> bool:
        is_idle = not len(self.ledger)
        is_due = self.poll_schedule.deserves_look(is_idle, monotonic())
        return is_due and self.room() > 0

    def promote(self) -> None:
        number = upkeep.BATCH
        while number == upkeep.BATCH:
            number, must_admit = upkeep.promote(self.connection.execute)
            if must_admit:
                self.admitting.expect()
        self.cursors.invalidate()

    def expect_old_jobs(self) -> None:
        """Note that jobs may be READY now that were enqueued long ago."""
        self.poll_schedule.wake()
        self.cursors.invalidate()

    # Recording

    def set_locked_aside(self) -> None:
        """Keep the outcomes whose rows somebody holds for later; record the others."""
        ids = [each.id for each in self.ledger.unrecorded]
        self.ledger.locked = recording.locked(self.connection.execute, self.id, ids)
        self.ask_for_locked_at = monotonic() + ASK_FOR_LOCKED_SECONDS

    def settle_completed(self) -> None:
        """Close the books on atomic jobs, which have recorded their success."""
        completed = self.ledger.completed
        if completed:
            self.expect_followers(completed)
            self.settle(
                completed, {each.lease_token: "SUCCESSFUL" for each in completed}
            )
            self.poll_schedule.wake()  # they may have enqueued some

    def expect_followers(self, outcomes: Sequence[Outcome]) -> None:
        """Note that others may have waited for the end of these jobs."""
        if self.ledger.holds_back(outcomes):
            self.admitting.expect()

    def record_setbacks(self) -> None:
        setbacks = self.ledger.setbacks
        if setbacks:
            recorded = recording.record(
                self.connection.execute, self.id, self.options.name, setbacks
            )
            self.expect_followers(setbacks)
            self.settle(setbacks, dict(recorded))
            # A backoff may be shorter than the loop's sleep.
            self.poll_schedule.wake_for_promotion()

    def settle(self, outcomes: Sequence[Outcome], status_of: dict[int, str]) -> None:
        """Close the books on outcomes that are stored, or whose job is not ours.

        `status_of`: what their jobs, by lease token, are now.
        """
        missing = [each for each in outcomes if each.lease_token not in status_of]
        if missing:
            status_of |= dict(
                recording.recorded_before(self.connection.execute, missing)
            )
        endings = self.ledger.settle(outcomes, status_of)
        self.announce(endings)
        stored = [ending for ending in endings if ending.status is not None]
        if stored:
            self.audience.recorded(stored)

    def announce(self, endings: Sequence[Ending]) -> None:
        """Say what became of jobs."""
        tells_all = is_heard(logging.INFO)
        for ending in endings:
            if tells_all or ending.status != "SUCCESSFUL":
                log_ending(ending)
        finished = [each.job.id for each in endings if each.status in FINISHED]
        self.finished += len(finished)
        self.announcer.finished(finished)

    def announce_expired(self, ids: Sequence[int]) -> None:
        if ids:
            logger.info("Cancelled jobs=%s that were not started in time", len(ids))
        self.announcer.finished(ids)

    def store_reports(self) -> None:
        """Store what jobs report, at once but not more often than need be."""
        reporting = self.executor.reporting
        if not reporting:
            return
        # The last report of a job that ended can only be stored before its outcome.
        is_last = any(each.lease_token in reporting for each in self.ledger.unrecorded)
        if is_last or monotonic() >= self.next_report:
            self.next_report = monotonic() + REPORT_SECONDS
            if taken := self.executor.take_reports():
                self.store(taken)

    def store(self, taken: Sequence[tuple[RunningJob, dict]]) -> None:
        """Store reports; give those back that could not be stored."""
        stored: set[int] = set()
        try:
            reports = [report for _, report in taken]
            stored = recording.report(self.connection.execute, self.id, reports)
        finally:
            for job, report in taken:
                if job.id not in stored and job.lease_token in self.ledger.in_flight:
                    job.put_back(report)

    def maintain(self) -> None:
        if monotonic() < self.maintenance.due:
            return
        warn_of_long_transactions()
        self.look_for_chores()
        self.announce_expired(self.maintenance.expire(self.connection.execute))
        self.maintenance.warn_of_too_heavy(self.connection.execute, self.options)
        if self.maintenance.deliver_late(self.connection.execute):
            self.poll_schedule.wake()
        rescued, orphans = self.maintenance.run(
            self.connection.execute, self.ledger.in_flight
        )
        for job in rescued:
            if job.status == "READY":
                self.expect_old_jobs()
            elif job.status == "WAITING":
                self.admitting.expect()
            else:
                self.announcer.finished([job.id])
        if orphans:
            recording.record(
                self.connection.execute, self.id, self.options.name, orphans
            )
            logger.warning("Released jobs=%s claimed unnoticed", len(orphans))

    def hear(self) -> None:
        """Take, now and then, what was notified: a busy loop does not sleep over it."""
        if monotonic() < self.next_hearing:
            return
        self.next_hearing = monotonic() + HEAR_SECONDS
        self.listener.keep_connected()
        if self.listener.has_been_told():
            self.poll_schedule.wake()

    def look_for_chores(self) -> None:
        """Ask in one statement, now and then, what there is to do."""
        looks = not self.cursors.are_set  # it would walk over what they spare
        chores = self.maintenance.look(self.connection.execute, looks)
        if chores is None:
            return
        self.admitting.sweeping.note(chores.admit)
        self.scheduler.expect(chores.next_fire)
        if looks and not chores.has_ready:
            self.poll_schedule.saw_none(chores.next_due, monotonic())

    # Cancelling

    def asked_to_cancel(self, lease_tokens: list[int]) -> None:
        """Note that jobs are to stop; called by the heartbeat's thread."""
        self.cancelling.extend(lease_tokens)
        self.ring()

    def pass_on_cancels(self) -> None:
        """Tell the jobs that are to stop. A notification is a hint: we look."""
        if self.listener.heard_cancel:
            self.listener.heard_cancel = False
            if len(self.ledger):
                asked = recording.cancel_requests(self.connection.execute, self.id)
                self.cancelling += asked
        while self.cancelling:
            self.executor.cancel(self.cancelling.popleft())

    # Schedules

    def fire_schedules(self) -> None:
        """Enqueue what schedules are due; also a worker without a free slot does."""
        if self.lifetime.is_over or not self.scheduler.is_due:
            return
        if self.scheduler.run(self.connection):
            self.poll_schedule.wake()

    # Dependencies

    def decide_dependencies(self) -> None:
        """Find or enqueue what jobs depend on, for those that nobody looked at yet."""
        if self.lifetime.is_over or not self.depending.is_due:
            return
        for job in self.depending.run(self.connection):
            self.admitting.expect()
            if job.status == "FAILED":
                logger.error(
                    "Job id=%s task=%s FAILED: %s",
                    job.id,
                    job.task,
                    job.reason,
                    extra=described(job),
                )
                self.announcer.finished([job.id])

    def look_for_forgotten(self) -> None:
        """Before a drain ends, see whether something waits for nothing."""
        position = admitting.BEGINNING
        while not self.admitting.is_failing:
            try:
                admission = admitting.admit(
                    self.connection.execute, position, sweeps=True
                )
            except BROKEN as error:
                self.admitting.failed()
                return self.tell_of_admission(error)
            self.note_admission(admission, swept=True)
            position = admission.position
            if admission.admitted or position == admitting.BEGINNING:
                break
        self.decide_dependencies()

    # Giving back

    def release_unstarted(self) -> None:
        """Put the prefetched jobs that no slot has begun back in the queue."""
        self.ledger.put(map(released, self.executor.withdraw()))

    def abandon(self) -> ExitCode:
        """Put the jobs that will not end back in the queue; their threads go on."""
        self.executor.withdraw()
        self.gather()
        running = self.ledger.still_running
        self.ledger.put(map(released, running))
        self.release()
        if not running and self.ledger.is_empty:
            return ExitCode.STOPPED
        logger.warning("Released jobs=%s that did not end in time", len(running))
        self.ledger.claim(running)  # for close(): their threads do not end
        is_hurried = self.lifetime.signals > 1
        return ExitCode.SECOND_SIGNAL if is_hurried else ExitCode.GRACE_OVER

    def release(self) -> None:
        """Store what is left; a job that cannot be released counts as crashed."""
        for _ in range(RELEASE_TRIES):
            try:
                return self.turn()
            except psycopg.errors.LockNotAvailable:
                with contextlib.suppress(psycopg.Error):
                    self.set_locked_aside()
            except psycopg.Error as error:
                logger.error("Releasing failed: %s", str(error).strip())

    # Sleeping

    def sleep(self) -> None:
        """Sleep until there is something to do; everything that happens ends it."""
        if self.faults.pause:
            self.sleep_off_fault()
        elif not (self.is_done or self.has_work()):
            timeout = max(self.next_event - monotonic(), 0.0)
            self.awake_at = monotonic() + timeout
            if self.listener.wait(timeout, self.has_work):
                self.poll_schedule.wake()
        if self.is_nudged:
            self.is_nudged = False
            self.poll_schedule.wake_for_promotion()

    def has_work(self) -> bool:
        """Whether a turn would find something to do."""
        if self.executor.outcomes or self.ledger.recordable or self.wants_to_look:
            return True
        if self.cancelling or self.listener.heard_cancel:
            return True
        if self.admitting.is_due:
            return True
        if self.depending.is_due and not self.lifetime.is_over:
            return True
        return bool(self.executor.reporting) and monotonic() >= self.next_report

    @property
    def next_event(self) -> float:
        """Return when the loop must turn even if nobody rings."""
        events = [self.admitting.next_event, self.maintenance.due, self.audience.due]
        if not self.lifetime.is_over:
            events += [self.scheduler.due, self.depending.due]
        if self.room():
            events.append(self.poll_schedule.next_look)
        if self.ledger.locked:
            events.append(self.ask_for_locked_at)
        if self.executor.reporting:
            events.append(self.next_report)
        if self.stop_at is not None:
            events.append(self.stop_at)
        if self.lifetime.end is not None and not self.lifetime.is_over:
            events.append(self.lifetime.end)
        return min(events)

    def sleep_off_fault(self) -> None:
        """Sleep until the database may be back; only signals cut it short."""
        deadline = self.awake_at = monotonic() + self.faults.pause
        signals = self.lifetime.signals
        while signals == self.lifetime.signals and (left := deadline - monotonic()) > 0:
            self.listener.wait(left, lambda: False)


def log_ending(ending: Ending) -> None:
    job, status, outcome, _ = ending
    if status is None:
        log(
            logging.WARNING,
            job,
            "lost: it was rescued, ended or deleted meanwhile; its outcome is void",
        )
    elif isinstance(outcome, Setback):
        level = logging.ERROR if status == "FAILED" else logging.INFO
        log(level, job, f"{status}: {outcome.reason}", status=status)
    else:
        log(logging.INFO, job, status, status=status)


def released(job: ClaimedJob) -> Setback:
    return release(job, "Released: the worker stopped.")
