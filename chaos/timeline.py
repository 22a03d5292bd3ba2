"""When which fault happens: drawn from a seed, so that it can happen once more."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

FIRST = 3.0  # seconds of peace, so that the first fault meets workers at work
SHORTEST_GAP, LONGEST_GAP = 0.5, 2.5  # seconds between two faults
# After so many faults so many seconds of peace, in which nothing excuses anything.
CALM_AFTER, CALM = 8, 8.0


class Kind(NamedTuple):
    """A kind of fault, with how long it lasts."""

    name: str
    shortest: float = 0.0
    longest: float = 0.0
    weight: int = 1  # how often it is in a round of all kinds


class Planned(NamedTuple):
    """One fault. `draw` decides which of the living processes it meets."""

    at: float
    kind: str
    seconds: float
    draw: float


KINDS = [
    Kind("kill a worker", weight=3),
    Kind("kill a starting worker"),
    Kind("kill a supervisor"),
    Kind("kill a starting supervisor"),
    Kind("kill all workers for a while", 5, 9),
    Kind("stop a worker for longer than its lease", 8, 11),
    Kind("stop a worker for a moment", 0.5, 2),
    Kind("stop a starting worker", 1, 9),
    Kind("stop a supervisor", 1, 4),
    Kind("stop a starting supervisor", 1, 9),
    Kind("terminate sessions of a worker", weight=3),
    Kind("terminate all sessions"),
    Kind("stop and start the server", 0.5, 4),
    Kind("freeze the network of a worker", 3, 9),
    Kind("freeze the network", 2, 5),
    Kind("cut the network of a worker", 1, 5),
    Kind("cut the network", 0.5, 3),
    Kind("slow network", 2, 4),
    Kind("swallow answers", 1, 3),
    Kind("full disk", 2, 4),
    Kind("step the clock of a worker", 2, 5),
    Kind("step the clock of the server", 2, 5),
    Kind("lock rows", 1, 4),
    Kind("lock the table", 1, 3),
    Kind("pin a snapshot", 4, 8),
    Kind("analyze"),
    Kind("reindex"),
    Kind("vacuum full"),
    Kind("pause a queue", 1, 4),
    Kind("deploy", weight=2),
    Kind("a job that ends its process", weight=2),
    Kind("poisonous rows"),
    Kind("prune batches", 2, 5),
    Kind("a crowd of queues behind one key", 6, 8),
]
NAMES = [kind.name for kind in KINDS]


def timeline(seed: int, seconds: float, kinds: Sequence[Kind] = KINDS) -> list[Planned]:
    """Return the faults of a run; the same ones for the same arguments.

    Every kind comes once before any comes again, as often as its weight says.
    """
    random = Random(seed)
    planned: list[Planned] = []
    at = FIRST
    while kinds:
        round_of_all = [kind for kind in kinds for _ in range(kind.weight)]
        random.shuffle(round_of_all)
        for kind in round_of_all:
            lasts = random.uniform(kind.shortest, kind.longest)
            fault = Planned(round(at, 3), kind.name, round(lasts, 3), random.random())
            at += lasts + random.uniform(SHORTEST_GAP, LONGEST_GAP)
            if len(planned) % CALM_AFTER == CALM_AFTER - 1:
                at += CALM
            if at > seconds:
                return planned
            planned.append(fault)
    return planned
