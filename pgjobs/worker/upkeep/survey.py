"""Asks in one statement which chores have something to do: one worker for all.

The worker that asks leads: it also does what one does for all. Each heartbeat of a
worker tells it whether another one leads. If none does, it begins to lead itself. Of
two that lead, the one with the higher number learns of the other by its next heartbeat,
and rests. So several may lead for a moment, but never none for long.
"""

from collections.abc import Callable, Iterable, Mapping
from math import inf
from time import monotonic
from typing import NamedTuple

from ...conf import settings
from ...queue import upkeep
from ..connections.connection import OwnConnection
from ..connections.heartbeat import Beat
from .chore import NOTHING, RESCUE_PER_HEARTBEAT, Chore, Effects, Timer

# Intervals after a survey for which the others leave the upkeep to this worker: should
# it freeze then, the others find that out within 0.6 and one more heartbeat.
LEADS_FOR = 1.5
# Heartbeats for which a worker that does not lead need not poll after one.
UNTIL_NEXT_BEAT = 1.2
SHORTEST_WAIT = 0.1  # seconds until the next survey while the death of a worker shows


class View(NamedTuple):
    """What a survey has to do with the rest of its worker."""

    last_beat: Callable[[], Beat]  # what the last heartbeat has found
    is_over: Callable[[], bool]  # whether the worker claims no more
    asks_for_ready: Callable[[], bool]  # whether to ask for READY jobs, too
    # Called with the seconds until a scheduled job is due, or None, the time, and the
    # seconds for which there need be no poll.
    saw_no_jobs: Callable[[float | None, float, float], None]
    saw_jobs: Callable[[], None]  # another worker may not take them


class Survey(Chore):
    """Puts off the chores that have nothing to do, or that another worker does.

    While the survey fails, each chore runs at its own interval.
    """

    name = "survey"

    def __init__(
        self,
        worker_id: int,
        questions: dict[str, str],
        *,
        asking: Mapping[str, Timer],
        for_all: Iterable[Chore],
        view: View,
    ):
        super().__init__(settings.HEARTBEAT_INTERVAL * RESCUE_PER_HEARTBEAT)
        self.worker_id = worker_id
        self.questions = questions
        self.asking = {name: asking[name] for name in questions}
        self.chores = list(for_all)
        self.of_leader = [*self.asking.values(), *self.chores]
        self.view = view
        self.leads = True

    def run(self, connection: OwnConnection) -> Effects:
        beat, is_over = self.view.last_beat(), self.view.is_over()
        if beat.leads and not is_over:
            self.lead(connection)
            return NOTHING
        if self.leads:
            self.leads = False
            for chore in self.of_leader:
                chore.rest()
            if is_over:
                upkeep.resign(connection.execute, self.worker_id)
        if beat.has_asked and self.view.asks_for_ready():
            self.hear_beat(beat)
        self.due = inf  # until a heartbeat calls `expect`
        if self.view.last_beat() is not beat:  # as it did right now
            self.due = 0.0
        return NOTHING

    def lead(self, connection: OwnConnection) -> None:
        """Ask what there is to do, and plan the chores by that."""
        begun, with_ready = monotonic(), self.view.asks_for_ready()
        self.leads = True
        for chore in self.of_leader:
            chore.resume(begun)
        leads_for = 0.0 if self.is_failing else LEADS_FOR * self.interval
        survey = upkeep.chores(
            connection.execute, self.questions, self.worker_id, with_ready, leads_for
        )
        now = monotonic()
        self.done(now)
        if survey.next_death_in is not None:
            self.due = min(self.due, now + max(survey.next_death_in, SHORTEST_WAIT))
        for name, chore in self.asking.items():
            chore.expect_in(survey.answers[name], now)
        if with_ready and not survey.has_ready:
            self.view.saw_no_jobs(survey.next_due, now, 0.0)

    @property
    def is_failing(self) -> bool:
        """Whether a chore fails here. Another worker may have the right or the code."""
        return any(chore.backoff.since is not None for chore in self.chores)

    def hear_beat(self, beat: Beat) -> None:
        """Take from a heartbeat of this worker what a fetch would find."""
        if beat.has_ready:
            self.view.saw_jobs()
        else:
            least = UNTIL_NEXT_BEAT * settings.HEARTBEAT_INTERVAL
            self.view.saw_no_jobs(beat.next_due, beat.at, least)
