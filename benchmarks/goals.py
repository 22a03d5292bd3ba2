"""What pgjobs is to reach, and how that is read from the figures of a run."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .cases import Figures
from .catalogue import SYSTEMS

Rounds = Sequence[Figures | None]
Measured = dict[str, list[Figures | None]]  # one case, by system
Run = dict[str, Measured]  # by case

DELETES_JOBS = ("pgqueuer", "graphile")  # when they are done
ON_POSTGRESQL = [
    each.name for each in SYSTEMS if each.is_rival and each.store == "postgresql"
]
KEEPS_JOBS = [name for name in ON_POSTGRESQL if not name.startswith(DELETES_JOBS)]
STRICT, PREFETCH = "pgjobs", "pgjobs-prefetch"
DELETING = "pgjobs-prefetch-keep-failed"  # as these rivals do
ON_DJANGO = ["django-tasks-db", "django-q2", "django-ox", "dj-queue"]


@dataclass(frozen=True)
class Goal:
    """One figure, and what it is to be at least or at most."""

    title: str
    value: Callable[[Run], float | None]  # None: that was not measured
    least: float | None = None
    most: float | None = None

    @property
    def asked(self) -> str:
        return f">= {self.least:,g}" if self.most is None else f"<= {self.most:,g}"

    def is_reached_by(self, value: float) -> bool:
        if self.most is None:
            return self.least is not None and value >= self.least
        return value <= self.most


def ratio(
    column: str, rounds: Rounds, other_column: str, others: Rounds
) -> float | None:
    """Return the median of the ratios within each round."""
    ratios = [
        figures[column] / other[other_column]
        for figures, other in zip(rounds, others, strict=False)
        if figures and other and column in figures and other.get(other_column)
    ]
    return statistics.median(ratios) if ratios else None


def figure(case: str, system: str, column: str) -> Callable[[Run], float | None]:
    """Return what reads the median of one figure."""

    def value(run: Run) -> float | None:
        rounds = run.get(case, {}).get(system, [])
        values = [each[column] for each in rounds if each and column in each]
        return statistics.median(values) if values else None

    return value


def against(
    case: str, system: str, *others: str, column: str = "jobs/s"
) -> Callable[[Run], float | None]:
    """Return what reads the ratio to another system, or to the best of several.

    Of rates the most is best, of bytes the least.
    """
    closest = min if column == "jobs/s" else max

    def value(run: Run) -> float | None:
        measured = run.get(case, {})
        ratios = [
            ratio(column, measured.get(system, []), column, measured[other])
            for other in others
            if other in measured
        ]
        return closest((each for each in ratios if each is not None), default=None)

    return value


def between(
    case: str, other_case: str, system: str, column: str, other_column: str = ""
) -> Callable[[Run], float | None]:
    """Return what reads how a figure changes from one case to another."""

    def value(run: Run) -> float | None:
        rounds = run.get(case, {}).get(system, [])
        others = run.get(other_case, {}).get(system, [])
        return ratio(column, rounds, other_column or column, others)

    return value


def goals_of_drains() -> list[Goal]:
    strict, prefetch = STRICT, PREFETCH
    return [
        Goal("drain, strict / bare-10", against("drain", strict, "bare-10"), 0.6),
        Goal(
            "drain, strict / procrastinate",
            against("drain", strict, "procrastinate"),
            10,
        ),
        Goal(
            "drain, strict / best Django rival",
            against("drain", strict, *ON_DJANGO),
            15,
        ),
        Goal("drain, prefetch / bare-100", against("drain", prefetch, "bare-100"), 0.5),
        Goal(
            "drain, prefetch / pgqueuer-100",
            against("drain", prefetch, "pgqueuer-100"),
            1.25,
        ),
        Goal(
            "drain, prefetch / graphile-batching",
            against("drain", prefetch, "graphile-batching"),
            1,
        ),
        Goal(
            "drain, prefetch, keep failed / pgqueuer-100",
            against("drain", DELETING, "pgqueuer-100"),
            1.5,
        ),
        Goal(
            "drain, prefetch, keep failed / graphile-batching",
            against("drain", DELETING, "graphile-batching"),
            0.9,
        ),
        Goal(
            "drain, prefetch, 2 workers / graphile-batching",
            against("drain-two", prefetch, "graphile-batching"),
            1,
        ),
        Goal(
            "drain, prefetch, 4 workers / graphile-batching",
            against("drain-four", prefetch, "graphile-batching"),
            1,
        ),
        Goal(
            "drain, --prefetch auto / --prefetch 200",
            against("drain", "pgjobs-auto", prefetch),
            0.9,
        ),
    ]


def goals_of_processor_time() -> list[Goal]:
    prefetch, server = PREFETCH, "server CPU us/job"
    full = "drain, 2 processes: cores that the server uses"
    return [
        Goal(
            f'drain, 2 processes / one (or the goal "{full}")',
            against("drain", "pgjobs-2", prefetch),
            1.5,
        ),
        Goal(full, figure("drain", "pgjobs-2", "server cores"), 0.95),
        Goal(
            "drain, prefetch: worker CPU, us/job",
            figure("drain", prefetch, "worker CPU us/job"),
            most=35,
        ),
        Goal(
            "drain, prefetch: server CPU, us/job",
            figure("drain", prefetch, server),
            most=20,
        ),
        Goal(
            "drain, prefetch, 2 workers: server CPU, us/job",
            figure("drain-two", prefetch, server),
            most=20,
        ),
        Goal(
            "drain, prefetch, 4 workers: server CPU, us/job",
            figure("drain-four", prefetch, server),
            most=20,
        ),
        Goal(
            "drain, prefetch, 2 workers / one: server CPU of a job",
            between("drain-two", "drain", prefetch, server),
            most=1.2,
        ),
        Goal(
            "drain, prefetch, 4 workers / one: server CPU of a job",
            between("drain-four", "drain", prefetch, server),
            most=1.2,
        ),
    ]


def goals_beside_others() -> list[Goal]:
    strict, prefetch = STRICT, PREFETCH
    return [
        Goal(
            "drain, prefetch: analyzed table / never analyzed one",
            between("drain", "drain-fresh", prefetch, "jobs/s"),
            most=1.5,
        ),
        Goal(
            "drain, prefetch: alone / beside 1.2 M others",
            between("drain", "drain-mixed", prefetch, "jobs/s"),
            most=1.3,
        ),
        Goal(
            "drain, strict: alone / beside 1.2 M others",
            between("drain", "drain-mixed", strict, "jobs/s"),
            most=1.3,
        ),
        Goal(
            "drain, strict: alone / beside 10 M finished",
            between("drain", "drain-10m", strict, "jobs/s"),
            most=1.5,
        ),
    ]


def goals_of_enqueuing() -> list[Goal]:
    return [
        Goal(
            "enqueue / the bare INSERT with the same triggers",
            against("enqueue", "pgjobs", "bare-insert"),
            0.75,
        ),
        Goal(
            "enqueue / best PostgreSQL rival",
            against("enqueue", "pgjobs", *ON_POSTGRESQL),
            1.25,
        ),
        Goal(
            "enqueue_many / one bare INSERT of the same rows",
            against("enqueue-many", "pgjobs", "bare-insert"),
            0.75,
        ),
        Goal(
            "enqueue_many / best PostgreSQL rival",
            against("enqueue-many", "pgjobs", *ON_POSTGRESQL),
            1.2,
        ),
    ]


def goals_of_bytes() -> list[Goal]:
    def best_rival(column: str) -> Callable[[Run], float | None]:
        return against("bytes", "pgjobs", *KEEPS_JOBS, column=column)

    return [
        Goal(
            "bytes of the log / best rival that keeps finished jobs",
            best_rival("log bytes/job"),
            most=0.7,
        ),
        Goal(
            "bytes of the log, keep failed / best rival",
            against(
                "bytes", "pgjobs-keep-failed", *ON_POSTGRESQL, column="log bytes/job"
            ),
            most=0.6,
        ),
        Goal(
            "bytes of the table / best rival that keeps finished jobs",
            best_rival("table bytes/job"),
            most=0.7,
        ),
    ]


def goals_of_waits() -> list[Goal]:
    name = "pgjobs"
    return [
        Goal("pickup p50, ms", figure("wake-up", name, "p50 ms"), most=0.7),
        Goal("pickup p99, ms", figure("wake-up", name, "p99 ms"), most=3),
        Goal(
            "pickup: of 10,000 jobs that waited over 1 s",
            figure("wake-up", name, "over 1 s"),
            most=0,
        ),
        Goal(
            "pickup p50, beside 1.2 M others / alone",
            between("pickup-mixed", "pickup", name, "p50 ms"),
            most=1.3,
        ),
        Goal(
            "pickup p50, beside 10 M finished / alone",
            between("pickup-10m", "pickup", name, "p50 ms"),
            most=1.5,
        ),
        Goal(
            "pinned snapshot, worst eighth: pickup p50, ms",
            figure("pinned", name, "worst eighth, p50 ms"),
            most=4,
        ),
        Goal(
            "pinned snapshot, worst eighth: pickup p95, ms",
            figure("pinned", name, "worst eighth, p95 ms"),
            most=20,
        ),
        Goal(
            "pinned snapshot: enqueue at the end / at the beginning",
            between(
                "pinned",
                "pinned",
                name,
                "enqueue at the end, p50 ms",
                "enqueue at the beginning, p50 ms",
            ),
            most=1.3,
        ),
        Goal("idle: statements/s", figure("idle", name, "statements/s"), most=1),
        Goal("idle: worker CPU, %", figure("idle", name, "worker CPU %"), most=0.5),
    ]


GOALS = [
    *goals_of_drains(),
    *goals_of_processor_time(),
    *goals_beside_others(),
    *goals_of_enqueuing(),
    *goals_of_bytes(),
    *goals_of_waits(),
]
