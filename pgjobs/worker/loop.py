"""The loop of a worker: record, look after the queue, claim; then sleep.

One pass takes one round trip if it has only successes to record. During the round trip
outcomes gather for the next pass. So a busy worker commits many at a time, and an idle
worker commits at once.
"""

import logging
from collections.abc import Callable, Iterator
from math import inf
from time import monotonic
from typing import Literal

import psycopg

from .. import signals
from ..exceptions import DatabaseLost
from ..features import entries
from ..models.worker import STOP
from ..tasks.registry import registry
from .claimer import Capacity, Claimer
from .connections.bell import Bell
from .connections.faults import Faults
from .connections.heartbeat import Heartbeat
from .connections.listener import Listener, own_channel
from .exit_code import ExitCode
from .in_flight import InFlight
from .modes import refuse_mode
from .notify_or_poll import NotifyOrPoll
from .observer import WorkerObserver
from .options import WorkerOptions
from .recorder import Recorder
from .session import Session
from .slots.executor import Executor
from .stopping import Lifetime, Stopping
from .upkeep.admission import Admitting
from .upkeep.announcer import Announcer
from .upkeep.chore import NOTHING, Effects, WorkerContext, attempt
from .upkeep.chores import Chores
from .upkeep.survey import View

logger = logging.getLogger("pgjobs.worker")

ORDER = "order"  # the payload on the worker's own channel when its row has a new one
DRAIN_PATIENCE = 600.0  # seconds; a drain whose claims fail for longer gives up


class Loop:
    """One worker: claims jobs, hands them to its slots and records the outcomes."""

    def __init__(self, options: WorkerOptions, observer: WorkerObserver | None = None):
        self.options = options
        self.observer = observer or WorkerObserver()
        of_features = [made() for made in entries("chore", "OBSERVERS")]
        self.observers = (*of_features, observer) if observer else tuple(of_features)
        self.id = 0  # until it is registered
        self.bell = Bell()
        self.executor = Executor(options.slots, self.bell.wake, options.database)
        self.in_flight = InFlight()
        self.admitting = Admitting()
        self.faults = Faults()
        self.lifetime = Lifetime(options, self.executor)
        self.phase: Literal["starting", "running", "stopped"] = "starting"
        self.awake_at = monotonic()  # the latest pass, or when the next one is due
        self.is_nudged = False
        self.on_told: Callable[[], None] = lambda: None  # to stop

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
            if self.lifetime.signals and self.stopping.is_out_of_time:
                return self.stopping.abandon()
            self.sleep()
        is_drained = self.options.drain and self.claimer.rule.is_empty
        is_renewed = self.lifetime.should_renew(is_drained)
        return ExitCode.RESTART if is_renewed else ExitCode.STOPPED

    def start(self) -> None:
        refuse_mode()
        registry.load_sources()
        self.session = Session(self.options, self.in_flight.fail_over)
        self.id, self.connection = self.session.id, self.session.connection
        self.executor.row = self.session.row
        self.build()
        self.heartbeat.start()
        self.phase = "running"
        logger.info("Worker name=%s id=%s started", self.options.name, self.id)
        self.observer.started()
        self.announcer.announce_worker(signals.worker_started, self.session.row)
        # Its receivers come before the first job.
        self.announcer.wait(must_end=lambda: self.lifetime.signals > 0)

    def build(self) -> None:
        """Make the parts that need the worker's id and its connection."""
        session, options = self.session, self.options
        held_ids = self.in_flight.ids
        self.heartbeat = Heartbeat(
            options,
            session.row,
            session.watchdog,
            held_ids,
            self.asked_to_cancel,
            asks_for_ready=self.asks_for_ready,
            on_beat=self.met_beat,
            on_order=self.obey,
        )
        self.announcer = Announcer(options.database)
        self.recorder = Recorder(
            session,
            self.executor,
            self.in_flight,
            self.observers,
            self.announcer,
            self.apply,
        )
        self.make_chores()
        self.capacity = Capacity(
            options,
            self.executor,
            self.in_flight,
            lifetime=self.lifetime,
            heartbeat=self.heartbeat,
            admitting=self.admitting,
        )
        self.claimer = Claimer(
            session,
            self.recorder,
            capacity=self.capacity,
            admitting=self.admitting,
            upkeep=self.upkeep,
            apply=self.apply,
        )
        self.listen()
        self.stopping = Stopping(self.recorder, self.lifetime, self.run_pass)

    def make_chores(self) -> None:
        context = WorkerContext(
            self.id,
            self.options.name,
            self.options.database,
            self.session.row,
            self.options,
            observers=self.observers,
            admitting=self.admitting,
            held=lambda: self.in_flight.jobs,
            held_ids=self.in_flight.ids,
            cancel=self.executor.cancel,
        )
        self.upkeep = Chores(
            context,
            View(
                last_beat=lambda: self.heartbeat.latest,
                is_over=lambda: self.lifetime.is_over,
                asks_for_ready=self.asks_for_ready,
                saw_no_jobs=self.saw_no_jobs,
                saw_jobs=lambda: self.claimer.rule.wake(),
            ),
        )

    def listen(self) -> None:
        """Make what wakes the loop."""
        # Each notification is a hint: without it the worker would find the same work
        # later.
        reactions = {
            Listener.CHANNEL: self.hear_of_queue,
            Listener.ADMISSION: self.admitting.hear,
            Listener.RESIGNED: lambda _: self.heartbeat.beat_soon(),
            own_channel(self.id): self.hear_of_own,
            Listener.MISSED: self.expect_all,
            **{chore.channel: chore.hear for chore in self.upkeep.heard},
        }
        self.listener = Listener(
            self.options,
            self.id,
            self.bell,
            self.session.watchdog,
            self.heartbeat,
            reactions,
            [chore.channel for chore in self.upkeep.heard],
        )
        self.notify_or_poll = NotifyOrPoll(self.listener, self.claimer)

    def hear_of_queue(self, queue_name: str) -> None:
        """Fetch, for the queue may have new jobs, if the worker serves it."""
        queues, excluded = self.options.queues, self.options.excluded
        if queue_name in excluded if queues is None else queue_name not in queues:
            return
        if not self.claimer.rule.may_hold_more:
            for observer in self.observers:
                observer.notified()
        self.claimer.rule.wake()

    def hear_of_own(self, payload: str) -> None:
        """Take a notification that is for this worker alone."""
        if payload == ORDER:
            self.heartbeat.beat_soon()
        self.upkeep.cancel_requests.hear(payload)

    def expect_all(self, _: str) -> None:
        """Fetch all that may have been notified while nothing listened."""
        self.claimer.rule.wake()
        self.admitting.expect()
        if self.in_flight.jobs:
            self.upkeep.cancel_requests.expect()
        for chore in self.upkeep.heard:
            chore.expect()

    def stop(self) -> None:
        """Claim no more and end once the jobs have; safe in a signal handler."""
        if self.lifetime.is_told:  # a deploy may follow: it cuts no grace short
            self.lifetime.is_told = False
        else:
            self.lifetime.signals += 1
        self.bell.ring()

    def obey(self, wanted: str) -> None:
        """Do what operators want of the worker. The heartbeat's thread calls this."""
        logger.info("Worker name=%s was told wanted=%s", self.options.name, wanted)
        self.lifetime.is_quiet = bool(wanted)
        if wanted == STOP and not self.lifetime.signals:
            self.lifetime.is_told, self.lifetime.signals = True, 1
            self.on_told()
            self.bell.ring()
        self.bell.wake()

    def nudge(self) -> None:
        """Fetch now, as after the poll interval; from any thread."""
        self.is_nudged = True
        self.bell.ring()

    def close(self) -> None:
        """Leave the queue. Jobs that still run here no longer belong to this worker."""
        self.phase = "stopped"
        self.announcer.announce_worker(signals.worker_stopping, self.session.row)
        if not (self.stopping.has_abandoned_jobs or self.in_flight.still_running):
            self.executor.stop()
        for each in self.executor.beside:
            each.close()
        self.stopping.is_cut_off = not self.announcer.stop(
            self.stopping.announces_until
        )
        self.heartbeat.stop()
        if self.faults.since is None:
            self.upkeep.end(self.connection)
        self.session.leave(self.lifetime.end_in_a_word)
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
        if not (self.lifetime.ends_when_idle and self.claimer.rule.is_empty):
            return False
        if not self.in_flight.is_empty:
            return self.in_flight.is_stuck
        now = monotonic()
        return not (self.admitting.is_expecting(now) or self.upkeep.is_expecting(now))

    # One pass

    def run_pass_or_wait(self) -> None:
        """Run a pass; while the database is away, keep what could not be stored."""
        self.awake_at = monotonic()
        try:
            self.run_pass()
        except psycopg.Error as error:
            self.apply(Effects(ready=True, in_doubt=True))
            self.claimer.backoff.passed()
            self.faults.met(error)
        else:
            if self.faults.pause:
                self.admitting.recovered()
                self.upkeep.recovered()
                self.faults.passed()

    def run_pass(self) -> None:
        """Record what has ended, do what is due, and claim for the free slots."""
        self.recorder.gather()
        if self.options.max_memory and self.in_flight.unrecorded:  # jobs have ended
            self.lifetime.measure_memory(self.options.max_memory)
        if self.lifetime.is_cut_short:
            self.stopping.release_unstarted()
        if self.executor.waiting:
            self.stopping.release_overdue()
        self.recorder.record()
        if self.upkeep.cancel_requests.asked:
            self.upkeep.cancel_requests.cancel_asked()
        for chore in self.upkeep.due(monotonic(), self.lifetime.is_over):
            self.apply(attempt(chore, self.connection))
        self.listener.take_while_busy()
        is_new = self.listener.connection is not self.notify_or_poll.connection
        if is_new or monotonic() >= self.notify_or_poll.due:
            self.notify_or_poll.run()
        if monotonic() >= self.observer.due:
            self.observer.catch_up()
        # After a fault a statement has to prove that the database is back.
        room = self.capacity.room(monotonic())
        self.claimer.run(room, is_wanted=self.faults.pause > 0)
        if self.options.drain:
            self.claimer.admissions.sweep_before_end()
            self.give_up_in_vain()

    def give_up_in_vain(self) -> None:
        """Raise DatabaseLost if the claims of a drain fail for too long."""
        now = monotonic()
        for backoff in (self.claimer.backoff, self.claimer.rule.without_queues):
            if backoff.lasts(now) > DRAIN_PATIENCE:
                raise DatabaseLost

    def apply(self, effects: Effects) -> None:
        """Hand what a step has changed to the parts of the worker."""
        if effects is not NOTHING:
            self.claimer.react_to(effects)
            self.upkeep.react_to(effects)
            self.announcer.finished(effects.finished)

    def asked_to_cancel(self, lease_tokens: list[int]) -> None:
        """Remember that jobs are to stop. The heartbeat's thread calls this."""
        self.upkeep.cancel_requests.ask(lease_tokens)
        self.bell.wake()

    def met_beat(self) -> None:
        """Wake up for what a beat has found. The heartbeat's thread calls this."""
        if self.phase == "running":
            self.upkeep.survey.expect()
            self.bell.wake()

    def asks_for_ready(self) -> bool:
        """Whether this worker has to know of READY jobs: it is mostly idle."""
        return not self.claimer.rule.cursors

    def saw_no_jobs(self, next_due: float | None, now: float, least: float) -> None:
        """Remember that no job is READY, and in how many seconds one will be due."""
        self.claimer.rule.saw_none(now, least)
        self.upkeep.promotion.expect_in(next_due, now)

    # Sleeping

    def sleep(self) -> None:
        """Sleep until there is something to do; every event ends the sleep."""
        if self.faults.pause:
            self.sleep_off_fault()
        elif not self.is_done and self.wakes_at() > monotonic():
            self.listener.wait(self.wakes_at)
        if self.is_nudged:
            self.is_nudged = False
            self.apply(Effects(old_ready=True, scheduled=True))

    def wakes_at(self) -> float:
        """Return when the next pass is due; what is notified may change that."""
        now, earliest = monotonic(), inf
        for event in self.events():
            earliest = min(earliest, event)
            if earliest <= now:  # a busy worker need not ask for the others
                break
        self.awake_at = max(earliest, now)
        return self.awake_at

    def events(self) -> Iterator[float]:
        """Yield when a pass finds something to do; what is mostly due comes first."""
        is_over = self.lifetime.is_over
        if is_over and self.in_flight.is_empty:  # since the loop has last asked
            yield 0.0
        yield self.recorder.next_event
        yield self.claimer.next_event
        yield self.admitting.next_event
        yield self.upkeep.next_event(is_over)
        yield self.notify_or_poll.wakes_at
        yield self.observer.due
        yield self.stopping.return_at if self.executor.waiting else inf
        yield self.stopping.stop_at or inf
        yield inf if is_over else self.lifetime.end

    def sleep_off_fault(self) -> None:
        """Sleep until the database may be back; only signals cut it short."""
        deadline = self.awake_at = monotonic() + self.faults.pause
        signals = self.lifetime.signals
        while signals == self.lifetime.signals and monotonic() < deadline:
            self.listener.wait(lambda: deadline)
