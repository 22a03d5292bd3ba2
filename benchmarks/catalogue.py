"""The systems that can be measured, each in the settings that its makers recommend."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class System:
    """One system in one way of running it."""

    name: str
    adapter: str  # the module in benchmarks/systems
    rate: int  # jobs a second that one worker was seen to run: sizes its drains
    settings: str  # printed with the results
    options: dict[str, Any] = field(default_factory=dict)  # OPTIONS of the adapter
    requirements: str | None = (
        None  # in benchmarks/requirements; None: the driver's own
    )
    store: str = "postgresql"  # or "redis"
    works: bool = True  # False: it shows what enqueuing costs, and has no worker

    @property
    def is_rival(self) -> bool:
        return self.requirements is not None

    @property
    def is_javascript(self) -> bool:
        return (self.requirements or "").endswith(".json")


def bare_sql(batch: int, rate: int) -> System:
    return System(
        f"bare-{batch}",
        "bare_sql",
        rate,
        f"one connection; claim and record in one statement, {batch} at a time",
        {"batch": batch},
    )


def bare_insert() -> System:
    settings = "psycopg: INSERT of a job into the table of pgjobs, its own commit"
    return System("bare-insert", "bare_insert", 0, settings, works=False)


def pgjobs(name: str, rate: int, *arguments: str) -> System:
    arguments = ("--concurrency", "10", "--poll", "60", *arguments)
    settings = f"runjobs {' '.join(arguments)}; signals available, logging at INFO"
    options = {"arguments": list(arguments)}
    return System(name, "pgjobs", rate, settings, options)


def rival(
    name: str,
    rate: int,
    settings: str,
    *,
    adapter: str | None = None,
    requirements: str | None = None,
    store: str = "postgresql",
    **options: Any,
) -> System:
    return System(
        name,
        adapter or name.replace("-", "_"),
        rate,
        settings,
        options,
        requirements or f"{name}.txt",
        store,
    )


def graphile(name: str, rate: int, settings: str, **options: Any) -> System:
    return rival(
        name,
        rate,
        settings,
        adapter="graphile",
        requirements="graphile.json",
        concurrentJobs=10,
        **options,
    )


def on_redis(name: str, rate: int, settings: str) -> System:
    return rival(name, rate, settings, store="redis")


SYSTEMS = [
    bare_sql(10, 8_000),
    bare_sql(100, 25_000),
    bare_insert(),
    pgjobs("pgjobs", 4_000),
    pgjobs("pgjobs-prefetch", 10_000, "--prefetch", "200"),
    pgjobs("pgjobs-2", 12_000, "--prefetch", "200", "--processes", "2"),
    rival("procrastinate", 500, "async tasks, concurrency 10, LISTEN"),
    rival("pgqueuer", 4_000, "asyncpg, uvloop, async tasks, batch 10", batch_size=10),
    rival(
        "pgqueuer-100",
        10_000,
        "asyncpg, uvloop, async tasks, batch 100",
        adapter="pgqueuer",
        requirements="pgqueuer.txt",
        batch_size=100,
    ),
    rival("chancy", 800, "ten threads, eager_polling"),
    graphile("graphile", 2_500, "concurrentJobs 10, defaults"),
    graphile(
        "graphile-batching",
        20_000,
        "concurrentJobs 10, localQueue 500, completeJobBatchDelay 0",
        localQueue={"size": 500},
        completeJobBatchDelay=0,
        failJobBatchDelay=0,
    ),
    rival(
        "awa", 1_200, "async handlers, 10 slots, queue storage, COPY for many", slots=10
    ),
    rival(
        "awa-1024",
        4_500,
        "async handlers, 1,024 slots, queue storage, COPY for many",
        adapter="awa",
        requirements="awa.txt",
        slots=1_024,
    ),
    rival("django-tasks-db", 260, "db_worker, one task at a time, as it comes"),
    rival(
        "django-q2",
        350,
        "ORM broker, 10 worker processes, bulk 10, queue_limit 100, save_limit 0",
    ),
    rival("django-ox", 500, "ox_worker --concurrency 10, persistent connections"),
    rival("dj-queue", 700, "10 threads, LISTEN, prefetch_multiplier 2 (default)"),
    on_redis("celery", 800, "10 threads, results ignored, prefetch multiplier 64"),
    on_redis("dramatiq", 2_500, "1 process, 10 threads"),
    on_redis("huey", 1_800, "10 threads, no results"),
    on_redis("rq", 240, "SimpleWorker (no fork), no results"),
]
BY_NAME = {system.name: system for system in SYSTEMS}
QUICK = ["bare-10", "bare-100", "bare-insert", "pgjobs", "pgjobs-prefetch"]
# What the figures of all others are divided by.
REFERENCES = QUICK
