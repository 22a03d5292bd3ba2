"""The loop of a worker: record, look after the queue, claim; then sleep.

One pass takes one round trip where nothing but successes is to be recorded. While it
is on its way outcomes gather for the next one, so that a busy worker commits many at a
time and an idle one commits at once.
"""

import logging
import os
import socket
from time import monotonic
from typing import Literal

import psycopg

from ..base.database_errors import text_of
from ..conf import settings
from ..exceptions import DatabaseLost
from ..queue.admitting import BEGINNING
from ..queue.claiming import ClaimedJob
from ..queue.recording import Unsuccessful, release
from ..sql import statement
from .claim_cursors import Marks
from .claimer import Claimer
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
from .exit_code import ExitCode
from .in_flight import InFlight
from .lifetime import Lifetime
from .observer import WorkerObserver
from .options import WorkerOptions
from .poll_schedule import Outlook
from .recorder import Recorder
from .slots.cleaning import watch_sessions
from .slots.executor import Executor
from .upkeep.admission import Admitting
from .upkeep.announcer import Announcer
from .upkeep.chore import NOTHING, Effects, attempt
from .upkeep.chores import Chores

logger = logging.getLogger("pgjobs.worker")

STATEMENT_SECONDS = 30.0
HEAR_SECONDS = 0.01  # between two looks of a busy loop at what was notified
LAST_SECONDS = 2.0  # for announcing the last jobs that ended
RELEASE_TRIES = 3


class Loop:
    """One worker: claims jobs, hands them to its slots and records the outcomes."""

    def __init__(self, options: WorkerOptions, observer: WorkerObserver | None = None):
        self.options = options
        self.observer = observer or WorkerObserver()
        self.id = 0  # until it is registered
        self.bell = Bell()
        self.executor = Executor(options.slots, self.ring, options.database)
        self.in_flight = InFlight()
        self.outlook = Outlook(options.poll)
        self.marks = Marks()
        self.admitting = Admitting()
        self.faults = Faults()
        self.lifetime = Lifetime(options, self.executor)
        self.stop_at: float | None = None  # end of the grace, once asked to stop
        self.next_hearing = 0.0
        # For those who probe the worker, see health.py.
        self.phase: Literal["starting", "running", "stopped"] = "starting"
        self.awake_at = monotonic()  # the latest pass, or when the next one is due
        self.is_nudged = False
        self.has_abandoned_jobs = False

    # Life

    def run(self) -> ExitCode:
        """Work until asked to stop; return how it ended.

        Raises psycopg.Error if the database is not there to begin with.
        """
        self.start()
        try:
            while not self.is_done:
                self.run_pass_or_wait()
                if self.is_out_of_time:
                    return self.abandon()
                self.sleep()
            is_drained = self.options.drain and self.outlook.is_empty
            is_renewed = self.lifetime.is_to_be_renewed(is_drained)
            return ExitCode.RESTART if is_renewed else ExitCode.STOPPED
        except DatabaseLost:
            logger.critical("Worker name=%s lost its database", self.options.name)
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
        self.furnish(row)
        self.heartbeat.start()
        self.phase = "running"
        logger.info("Worker name=%s id=%s started", options.name, self.id)
        self.observer.started()

    def register(self, row: dict) -> None:
        self.id = self.connection.execute(statement("register_worker"), row)[0][0]
        hold_session_lock(self.connection, self.id)

    def prepare(self, connection: OwnConnection) -> None:
        plan_once(connection)
        if self.id:  # not the first connection
            hold_session_lock(connection, self.id)

    def worker_row(self) -> dict:
        options = self.options
        return {
            "name": options.name,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "queues": ",".join(options.queues or ()),
            "excluded": ",".join(options.excluded),
            "slots": options.slots,
            "units": options.units,
            "lease": settings.LEASE_DURATION,
            "heartbeat_interval": settings.HEARTBEAT_INTERVAL,
        }

    def furnish(self, row: dict) -> None:
        """Make the parts that need the worker's id and its connection."""
        options = self.options
        self.heartbeat = Heartbeat(
            options, {**row, "id": self.id}, self.watchdog, self.asked_to_cancel
        )
        self.announcer = Announcer(options.database)
        self.recorder = Recorder(
            self.connection,
            self.id,
            options,
            self.executor,
            self.in_flight,
            self.observer,
            self.announcer,
            self.note,
        )
        self.upkeep = Chores(
            self.id,
            options,
            admitting=self.admitting,
            held=lambda: self.in_flight.jobs,
            cancel=self.executor.cancel,
            looks_for_jobs=lambda: self.marks.spans is None,
            saw_no_jobs=self.outlook.saw_none,
        )
        self.claimer = Claimer(
            connection=self.connection,
            worker_id=self.id,
            options=options,
            in_flight=self.in_flight,
            executor=self.executor,
            lifetime=self.lifetime,
            heartbeat=self.heartbeat,
            recorder=self.recorder,
            outlook=self.outlook,
            marks=self.marks,
            admitting=self.admitting,
            upkeep=self.upkeep,
            note=self.note,
        )
        self.listener = Listener(
            options,
            self.id,
            self.bell,
            self.watchdog,
            lambda: not self.heartbeat.is_late,
            self.hear,
        )
        self.hearers = {
            Listener.CHANNEL: self.heard_of_queue,
            Listener.ADMISSION: self.admitting.hear,
            self.listener.own_channel: self.upkeep.cancel_requests.hear,
            Listener.MISSED: self.missed_notifications,
        }

    def stop(self) -> None:
        """Claim no more and end once the jobs have; safe in a signal handler."""
        self.lifetime.signals += 1
        self.bell.ring()

    def nudge(self) -> None:
        """Look at the queue now, as when the poll interval is over; from any thread."""
        self.is_nudged = True
        self.bell.ring()

    def ring(self) -> None:
        """Wake the loop for what was put down for it; from any thread."""
        self.listener.ring()

    def close(self) -> None:
        """Leave; what still runs here is not this worker's any more."""
        self.phase = "stopped"
        if self.has_abandoned_jobs or self.in_flight.still_running:
            # The process has to end now.
            self.announcer.stop(timeout=LAST_SECONDS)
        else:
            self.executor.stop()
            self.announcer.stop()
        self.heartbeat.stop()
        self.leave()
        self.connection.close()
        self.listener.close()
        self.watchdog.stop()
        logger.info("Worker name=%s stopped", self.options.name)

    def leave(self) -> None:
        """Remove the worker's row; if that fails, others find the worker dead."""
        try:
            self.connection.execute(statement("leave"), {"id": self.id})
        except psycopg.Error as error:
            logger.warning("Leaving failed: %s", text_of(error))

    @property
    def finished(self) -> int:
        """How many jobs have ended here."""
        return self.recorder.finished

    @property
    def last_claim_at(self) -> float | None:
        """When it claimed jobs for the last time (seconds of Unix time), if ever."""
        return None if self.phase == "starting" else self.claimer.last_claim_at

    @property
    def is_done(self) -> bool:
        now = monotonic()
        ends_when_idle = self.options.drain or self.lifetime.has_given_up
        if not self.in_flight.is_empty:
            return ends_when_idle and self.in_flight.is_stuck and self.outlook.is_empty
        if self.lifetime.is_over:
            return True
        is_expecting = self.upkeep.is_expecting(now) or self.admitting.is_expecting(now)
        return ends_when_idle and self.outlook.is_empty and not is_expecting

    @property
    def is_out_of_time(self) -> bool:
        """Whether the running jobs must be released."""
        signals = self.lifetime.signals
        if signals == 0:
            return False
        if self.stop_at is None:
            self.stop_at = monotonic() + self.options.grace
            if len(self.in_flight):
                self.observer.stopping(len(self.in_flight))
        over = signals > 1 or monotonic() >= self.stop_at
        return over and len(self.in_flight) > 0

    # One pass

    def run_pass_or_wait(self) -> None:
        """Run a pass; while the database is away, keep what could not be stored."""
        self.awake_at = monotonic()
        try:
            self.run_pass()
        except psycopg.Error as error:
            self.note(Effects(ready=True, in_doubt=True))
            self.claimer.backoff.passed()
            self.faults.met(error)
        else:
            if self.faults.since is not None:
                self.admitting.recovered()
                self.upkeep.recovered()
            self.faults.passed()

    def run_pass(self) -> None:
        """Record what has ended, do what is due, and claim for the free slots."""
        self.recorder.gather()
        if self.in_flight.unrecorded:  # jobs have ended
            self.lifetime.measure_memory()
        if self.lifetime.is_cut_short:
            self.release_unstarted()
        self.recorder.record()
        self.upkeep.cancel_requests.pass_on()
        for chore in self.upkeep.due(self.lifetime.is_over):
            self.note(attempt(chore, self.connection))
        self.take_notified()
        if monotonic() >= self.observer.due:
            self.observer.catch_up()
        # After a fault a statement has to prove that the database is back.
        self.claimer.run(is_wanted=self.faults.since is not None)
        if self.options.drain and self.outlook.is_empty and self.in_flight.is_empty:
            self.look_for_forgotten()

    def note(self, effects: Effects) -> None:
        """Take note of what a step has changed."""
        if effects is NOTHING:
            return
        if effects.ready or effects.old_ready:
            self.outlook.expect_jobs()
        if effects.old_ready:
            self.marks.doubt()
        if effects.scheduled:
            self.outlook.expect_due()
        if effects.waiting:
            self.admitting.expect()
        if effects.undecided:
            self.upkeep.dependencies.expect()
        if effects.expired:
            self.upkeep.expiry.expect()
        if effects.in_doubt:
            self.upkeep.orphans.expect()
        self.announcer.finished(effects.finished)

    def look_for_forgotten(self) -> None:
        """Before a drain ends, see whether something waits for nothing."""
        self.admitting.position = BEGINNING
        while not self.admitting.is_failing(monotonic()):
            effects = attempt(self.admitting, self.connection)
            self.note(effects)
            if effects.old_ready or self.admitting.position == BEGINNING:
                break
        if self.upkeep.dependencies.is_due(monotonic()):
            self.note(attempt(self.upkeep.dependencies, self.connection))

    # What the worker hears

    def take_notified(self) -> None:
        """Take, now and then, what was notified: a busy loop does not sleep over it."""
        if monotonic() >= self.next_hearing:
            self.next_hearing = monotonic() + HEAR_SECONDS
            self.listener.keep_connected()
            self.listener.take_notified()

    def hear(self, channel: str, payload: str) -> None:
        self.hearers[channel](payload)

    def heard_of_queue(self, queue_name: str) -> None:
        if self.options.serves(queue_name):
            self.marks.hear(queue_name)
            self.outlook.expect_jobs()

    def missed_notifications(self, _: str) -> None:
        self.outlook.expect_jobs()
        self.admitting.expect()
        if len(self.in_flight):
            self.upkeep.cancel_requests.expect()

    def asked_to_cancel(self, lease_tokens: list[int]) -> None:
        """Note that jobs are to stop; called by the heartbeat's thread."""
        self.upkeep.cancel_requests.ask(lease_tokens)
        self.ring()

    # Giving back

    def release_unstarted(self) -> None:
        """Put the prefetched jobs that no slot has begun back in the queue."""
        self.in_flight.put(map(released, self.executor.withdraw()))

    def abandon(self) -> ExitCode:
        """Put the jobs that will not end back in the queue; their threads go on."""
        self.executor.withdraw()
        self.recorder.gather()
        running = self.in_flight.still_running
        self.in_flight.put(map(released, running))
        self.release()
        if not running and self.in_flight.is_empty:
            return ExitCode.STOPPED
        logger.warning("Released jobs=%s that did not end in time", len(running))
        self.has_abandoned_jobs = bool(running)
        is_hurried = self.lifetime.signals > 1
        return ExitCode.SECOND_SIGNAL if is_hurried else ExitCode.GRACE_OVER

    def release(self) -> None:
        """Store what is left; a job that cannot be released counts as crashed."""
        for _ in range(RELEASE_TRIES):
            try:
                self.run_pass()
            except psycopg.Error as error:
                logger.error("Releasing failed: %s", text_of(error))
            if not self.in_flight.recordable:
                return

    # Sleeping

    def sleep(self) -> None:
        """Sleep until there is something to do; everything that happens ends it."""
        if self.faults.pause:
            self.sleep_off_fault()
        elif not (self.is_done or self.has_work()):
            timeout = max(self.next_event - monotonic(), 0.0)
            self.awake_at = monotonic() + timeout
            self.listener.wait(timeout, self.has_work)
        if self.is_nudged:
            self.is_nudged = False
            self.outlook.expect_due()

    def has_work(self) -> bool:
        """Whether a pass would find something to do."""
        now = monotonic()
        return (
            self.recorder.has_work(now)
            or self.claimer.wants_to_look
            or self.admitting.is_due(now)
            or self.upkeep.has_work(now, self.lifetime.is_over)
        )

    @property
    def next_event(self) -> float:
        """Return when the loop must run a pass even if nothing rings."""
        is_over = self.lifetime.is_over
        events = [
            self.recorder.next_event,
            self.claimer.next_event,
            self.admitting.next_event,
            self.upkeep.next_event(is_over),
            self.observer.due,
        ]
        if self.stop_at is not None:
            events.append(self.stop_at)
        if self.lifetime.end is not None and not is_over:
            events.append(self.lifetime.end)
        return min(events)

    def sleep_off_fault(self) -> None:
        """Sleep until the database may be back; only signals cut it short."""
        deadline = self.awake_at = monotonic() + self.faults.pause
        signals = self.lifetime.signals
        while signals == self.lifetime.signals and (left := deadline - monotonic()) > 0:
            self.listener.wait(left, lambda: False)


def released(job: ClaimedJob) -> Unsuccessful:
    return release(job, "Released: the worker stopped.")
