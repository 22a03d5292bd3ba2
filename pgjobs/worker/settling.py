"""Keys that could not be settled as a transaction committed, and forgotten ones.

Who commits never waits for somebody who decides about the same key: he leaves it to
the workers. See migrations/0008_holding_back.py.
"""

import logging
import random
import re
from dataclasses import dataclass
from math import inf
from time import monotonic

from ..conf import settings
from ..models import work
from ..models.work import Execute, Key
from .maintenance import RESCUE_PER_HEARTBEAT, Chore

logger = logging.getLogger("pgjobs.worker")

# What transactions notify of. Anybody may notify anything: the rest is not for us.
UNSETTLED = re.compile(
    r"(lock|limit|rate) (.+)|(predecessor|batch) ([0-9]{1,18})", re.S
)
MOST_TRIES = 10_000  # more keys than these are left to the sweep
FIRST_PAUSE = 0.002  # seconds until a key is asked for again that somebody holds
LONGEST_PAUSE = 1.0


@dataclass
class Try:
    due: float  # monotonic time
    pause: float  # seconds until the next one, if this one fails


class Settling:
    def __init__(self) -> None:
        self.tries: dict[Key, Try] = {}
        # As often as others are rescued: who cannot listen hears of no key.
        self.sweeping = Chore(settings.HEARTBEAT_INTERVAL * RESCUE_PER_HEARTBEAT)
        self.swept_up_to = work.BEGINNING
        self.met_undecided = False  # a job waits for a dependency, nobody knows which

    @property
    def due(self) -> float:
        tried = min((each.due for each in self.tries.values()), default=inf)
        return min(tried, self.sweeping.due)

    def hear(self, payload: str) -> None:
        """Take note of a key that somebody could not settle."""
        kind, _, key = payload.partition(" ")
        if kind == "dependency":
            self.met_undecided = True
        elif UNSETTLED.fullmatch(payload) and len(self.tries) < MOST_TRIES:
            self.tries.setdefault(Key(kind, key), Try(monotonic(), FIRST_PAUSE))

    def run(self, execute: Execute) -> int:
        """Settle the keys that are due; return how many jobs that let go."""
        now = monotonic()
        due = [key for key, each in self.tries.items() if each.due <= now]
        let_go = 0
        if due:
            let_go += self.note(work.settle(execute, due[: work.KEYS_AT_ONCE]))
        if self.sweeping.is_due():
            swept = self.sweep(execute)
            has_more = swept > 0 or self.swept_up_to != work.BEGINNING
            self.sweeping.done(again_at_once=has_more)
            let_go += swept
        return let_go

    def sweep(self, execute: Execute) -> int:
        """Look at some of the keys that jobs wait for; return how many that let go."""
        settled, self.swept_up_to = work.sweep(execute, self.swept_up_to)
        let_go = self.note(settled)
        if let_go:
            logger.info("Let jobs=%s go that nothing held back any more", let_go)
        return let_go

    def sweep_all(self, execute: Execute) -> int:
        """Look at all keys that jobs wait for; return how many jobs that let go."""
        self.swept_up_to = work.BEGINNING
        let_go = self.sweep(execute)
        while self.swept_up_to != work.BEGINNING:
            let_go += self.sweep(execute)
        return let_go

    def note(self, settled: dict[Key, int | None]) -> int:
        for key, let_go in settled.items():
            if key.kind == "dependency":
                self.met_undecided = True
                continue
            if let_go is not None:
                self.tries.pop(key, None)
                continue
            pause = self.tries[key].pause if key in self.tries else FIRST_PAUSE
            due = monotonic() + pause * random.uniform(0.5, 1)
            self.tries[key] = Try(due, min(2 * pause, LONGEST_PAUSE))
        return sum(let_go or 0 for let_go in settled.values())
