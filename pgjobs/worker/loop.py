"""The loop of a worker: record, look after the queue, claim; then sleep.

One pass takes one round trip if it has only successes to record. During the round trip
outcomes gather for the next pass. So a busy worker commits many at a time, and an idle
worker commits at once.
"""

import logging
from math import inf
from time import monotonic
from typing import Literal

import psycopg

from .. import signals
from ..exceptions import DatabaseLost
from ..tasks.registry import registry
from .claim_cursors import ClaimCursors
from .claimer import Claimer
from .connections.bell import Bell
from .connections.faults import Faults
from .connections.heartbeat import Heartbeat
from .connections.listener import Listener
from .exit_code import ExitCode
from .in_flight import InFlight
from .lifetime import Lifetime
from .modes import refuse_mode
from .notifications import Notifications
from .observer import WorkerObserver
from .options import WorkerOptions
from .poll_schedule import PollSchedule
from .recorder import Recorder
from .session import Session
from .slots.executor import Executor
from .stopping import Stopping
from .upkeep.admission import Admitting
from .upkeep.announcer import Announcer
from .upkeep.chore import NOTHING, Effects, attempt
from .upkeep.chores import Chores
from .upkeep.survey import View
from .wakefulness import Wakefulness

logger = logging.getLogger("pgjobs.worker")


class Loop:
    """One worker: claims jobs, hands them to its slots and records the outcomes."""

    def __init__(self, options: WorkerOptions, observer: WorkerObserver | None = None):
        self.options = options
        self.observer = observer or WorkerObserver()
        self.id = 0  # until it is registered
        self.bell = Bell()
        self.executor = Executor(options.slots, self.ring, options.database)
        self.in_flight = InFlight()
        self.poll_schedule = PollSchedule(options.poll)
        self.cursors = ClaimCursors(options.poll, options.units is not None)
        self.admitting = Admitting()
        self.faults = Faults()
        self.lifetime = Lifetime(options, self.executor)
        self.phase: Literal["starting", "running", "stopped"] = "starting"
        self.awake_at = monotonic()  # the latest pass, or when the next one is due
        self.is_nudged = False

    # Life

    def run(self) -> ExitCode:
        """Work until asked to stop; return how it ended.

        Raises psycopg.Error if the database is not there to begin with, and
        ImproperlyConfigured if PGJOBS["MODE"] wants no worker.
        """
        self.start()
        try:
            code = self.work()
        except DatabaseLost:
            logger.critical("Worker name=%s lost its database", self.options.name)
            code = ExitCode.LOST
        finally:
            self.close()
        return self.stopping.judged(code)

    def work(self) -> ExitCode:
        """Run passes until the worker has to end."""
        while not self.is_done:
            self.run_pass_or_wait()
            if self.stopping.is_out_of_time:
                return self.stopping.abandon()
            self.sleep()
        is_drained = self.options.drain and self.poll_schedule.is_empty
        is_renewed = self.lifetime.should_renew(is_drained)
        return ExitCode.RESTART if is_renewed else ExitCode.STOPPED

    def start(self) -> None:
        refuse_mode()
        registry.load_sources()
        self.session = Session(self.options, self.in_flight.doubt_all)
        self.id, self.connection = self.session.id, self.session.connection
        self.make_parts()
        self.heartbeat.start()
        self.phase = "running"
        logger.info("Worker name=%s id=%s started", self.options.name, self.id)
        self.observer.started()
        self.announcer.announce_worker(signals.worker_started, self.session.row)
        # Its receivers come before the first job.
        self.announcer.wait(must_end=lambda: self.lifetime.signals > 0)

    def make_parts(self) -> None:
        """Make the parts that need the worker's id and its connection."""
        session, options = self.session, self.options
        held_ids = self.in_flight.ids
        self.heartbeat = Heartbeat(
            options, session.row, session.watchdog, held_ids, self.asked_to_cancel
        )
        self.announcer = Announcer(options.database)
        self.recorder = Recorder(
            session,
            self.executor,
            self.in_flight,
            self.observer,
            self.announcer,
            self.note,
        )
        self.upkeep = Chores(
            session.row,
            options,
            figures=self.recorder.figures,
            admitting=self.admitting,
            held=lambda: self.in_flight.jobs,
            held_ids=held_ids,
            cancel=self.executor.cancel,
            view=View(
                looks_for_jobs=lambda: not self.cursors.are_set,
                saw_no_jobs=self.poll_schedule.saw_none,
                listens=lambda: self.listener.connection is not None,
            ),
        )
        self.claimer = Claimer(
            session,
            self.recorder,
            lifetime=self.lifetime,
            heartbeat=self.heartbeat,
            poll_schedule=self.poll_schedule,
            cursors=self.cursors,
            admitting=self.admitting,
            upkeep=self.upkeep,
            note=self.note,
        )
        self.listen()
        self.stopping = Stopping(self.recorder, self.lifetime, self.run_pass)

    def listen(self) -> None:
        """Make what wakes the loop."""
        self.listener = Listener(
            self.options,
            self.id,
            self.bell,
            self.session.watchdog,
            self.heartbeat,
            Notifications(self.claimer).hear,
        )
        self.wakefulness = Wakefulness(self.listener, self.claimer)

    def stop(self) -> None:
        """Claim no more and end once the jobs have; safe in a signal handler."""
        self.lifetime.signals += 1
        self.bell.ring()

    def nudge(self) -> None:
        """Look at the queue now, as after the poll interval; from any thread."""
        self.is_nudged = True
        self.bell.ring()

    def ring(self) -> None:
        """Wake the loop after something was put down for it; from any thread."""
        self.listener.ring()

    def close(self) -> None:
        """Leave the queue. Jobs that still run here no longer belong to this worker."""
        self.phase = "stopped"
        self.announcer.announce_worker(signals.worker_stopping, self.session.row)
        if not (self.stopping.has_abandoned_jobs or self.in_flight.still_running):
            self.executor.stop()
        self.stopping.is_cut_off = not self.announcer.stop(
            self.stopping.announces_until
        )
        self.heartbeat.stop()
        if self.faults.since is None:
            self.upkeep.store_last_figures(self.connection)
        self.session.leave()
        self.listener.close()
        self.session.close()
        logger.info("Worker name=%s stopped", self.options.name)

    @property
    def finished(self) -> int:
        """Return how many jobs have ended here."""
        return self.recorder.finished

    @property
    def is_done(self) -> bool:
        if self.in_flight.is_empty and self.lifetime.is_over:
            return True
        if not (self.lifetime.ends_when_idle and self.poll_schedule.is_empty):
            return False
        if not self.in_flight.is_empty:
            return self.in_flight.is_stuck
        now = monotonic()
        return not (self.upkeep.is_expecting(now) or self.admitting.is_expecting(now))

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
            self.stopping.release_unstarted()
        self.stopping.release_overdue(self.claimer.prefetching)
        self.recorder.record()
        self.upkeep.cancel_requests.cancel_asked()
        for chore in self.upkeep.due(monotonic(), self.lifetime.is_over):
            self.note(attempt(chore, self.connection))
        self.listener.take_while_busy()
        self.wakefulness.run()
        if monotonic() >= self.observer.due:
            self.observer.catch_up()
        # After a fault a statement has to prove that the database is back.
        self.claimer.run(is_wanted=self.faults.since is not None)
        self.claimer.look_for_forgotten()

    def note(self, effects: Effects) -> None:
        """Hand what a step has changed to the parts of the worker."""
        if effects is not NOTHING:
            self.claimer.take_note(effects)
            self.upkeep.take_note(effects)
            self.announcer.finished(effects.finished)

    def asked_to_cancel(self, lease_tokens: list[int]) -> None:
        """Note that jobs are to stop. The heartbeat's thread calls this."""
        self.upkeep.cancel_requests.ask(lease_tokens)
        self.ring()

    # Sleeping

    def sleep(self) -> None:
        """Sleep until there is something to do; every event ends the sleep."""
        if self.faults.pause:
            self.sleep_off_fault()
        elif not (self.is_done or self.has_work()):
            self.listener.wait(self.wakes_at, self.has_work)
        if self.is_nudged:
            self.is_nudged = False
            self.poll_schedule.wake_for_promotion()

    def wakes_at(self) -> float:
        """Return when the next pass is due; what is notified may change that."""
        self.awake_at = max(self.next_event, monotonic())
        return self.awake_at

    def has_work(self) -> bool:
        """Whether a pass would find something to do."""
        now = monotonic()
        return (
            self.recorder.has_work(now)
            or self.claimer.wants_to_look
            or self.admitting.is_due(now)
            or self.upkeep.has_work(now, self.lifetime.is_over)
            or self.wakefulness.is_due(now)
        )

    @property
    def next_event(self) -> float:
        """Return when the loop must run a pass even if nothing rings."""
        is_over = self.lifetime.is_over
        if is_over and self.in_flight.is_empty:  # since the loop has last asked
            return 0.0
        return min(
            self.recorder.next_event,
            self.claimer.next_event,
            self.claimer.prefetching.return_at,
            self.admitting.next_event,
            self.upkeep.next_event(is_over),
            self.observer.due,
            self.wakefulness.next_event,
            self.stopping.stop_at or inf,
            inf if is_over else self.lifetime.end,
        )

    def sleep_off_fault(self) -> None:
        """Sleep until the database may be back; only signals cut it short."""
        deadline = self.awake_at = monotonic() + self.faults.pause
        signals = self.lifetime.signals
        while signals == self.lifetime.signals and monotonic() < deadline:
            self.listener.wait(lambda: deadline, lambda: False)
