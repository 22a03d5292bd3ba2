"""The systems that can be measured, each in the settings that its makers recommend."""

from dataclasses import dataclass, field
from typing import Any

# The settings of a project whose successes are deleted.
KEEP = "benchmarks.project.settings_of_keep"


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
    start: float = 0.1  # share of a drain that is not measured: workers start
    works: bool = True  # False: it shows what enqueuing costs, and has no worker
    # Whether it is ours, but measured only where rivals are.
    is_beside_rivals: bool = False
    processes: int = 1  # of one worker

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


def pgjobs(
    name: str,
    rate: int,
    *arguments: str,
    start: float = 0.1,
    adapter: str = "pgjobs",
    processes: int = 1,
    **options: Any,
) -> System:
    arguments = ("--concurrency", "10", "--poll", "60", *arguments)
    if processes > 1:
        arguments += ("--processes", str(processes))
    settings = f"runjobs {' '.join(arguments)}; signals available, logging at INFO"
    if options.get("project") == KEEP:
        settings += '; PGJOBS = {"KEEP": "failed"}'
    options = {"arguments": list(arguments), **options}
    return System(
        name,
        adapter,
        rate,
        settings,
        options,
        start=start,
        is_beside_rivals=adapter != "pgjobs",
        processes=processes,
    )


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


def pgqueuer(name: str, rate: int, batch_size: int) -> System:
    return rival(
        name,
        rate,
        f"batch {batch_size}, async tasks, uvloop, asyncpg's pool, its settings of "
        "autovacuum (its guide to performance)",
        adapter="pgqueuer",
        requirements="pgqueuer.txt",
        batch_size=batch_size,
    )


def awa(name: str, rate: int, slots: int) -> System:
    return rival(
        name,
        rate,
        f"{slots:,} slots, async handlers, queue storage, COPY for many",
        adapter="awa",
        requirements="awa.txt",
        slots=slots,
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
    bare_sql(10, 16_000),
    bare_sql(100, 50_000),
    bare_insert(),
    pgjobs("pgjobs", 6_000),
    pgjobs("pgjobs-prefetch", 25_000, "--prefetch", "200"),
    pgjobs("pgjobs-auto", 25_000, "--prefetch", "auto"),
    # Its second process is started when the first one is ready.
    pgjobs("pgjobs-2", 30_000, "--prefetch", "200", processes=2, start=0.4),
    pgjobs(
        "pgjobs-tasks",
        6_000,
        adapter="pgjobs_tasks",
        project="benchmarks.project.settings_of_tasks",
    ),
    # Beside the rivals that delete what has succeeded, and take 500 at a time.
    pgjobs("pgjobs-keep-failed", 6_000, project=KEEP),
    pgjobs("pgjobs-prefetch-keep-failed", 25_000, "--prefetch", "auto", project=KEEP),
    rival("procrastinate", 500, "async tasks, concurrency 10, LISTEN"),
    pgqueuer("pgqueuer", 3_500, 10),
    pgqueuer("pgqueuer-100", 18_000, 100),
    rival("chancy", 800, "10 threads, eager_polling (its queue's documentation)"),
    graphile("graphile", 2_500, "concurrentJobs 10, otherwise as it comes"),
    graphile(
        "graphile-batching",
        30_000,
        "concurrentJobs 10, localQueue 500, completeJobBatchDelay 0 and "
        "failJobBatchDelay 0 (its performance page)",
        localQueue={"size": 500},
        completeJobBatchDelay=0,
        failJobBatchDelay=0,
    ),
    awa("awa", 1_000, 10),
    # What its guide asks for where no-op jobs come fast.
    awa("awa-1024", 5_000, 1_024),
    rival(
        "django-tasks-db",
        260,
        "db_worker, which runs one task at a time; it has no "
        "setting for speed, and a CONN_MAX_AGE of 600",
    ),
    rival(
        "django-q2",
        350,
        "ORM broker, 10 worker processes, bulk 10, queue_limit 100 (its guide), "
        "save_limit 0: all results are kept, and not counted at each one",
    ),
    rival(
        "django-ox",
        450,
        "ox_worker --concurrency 10, persistent connections (its benchmarks)",
    ),
    rival(
        "dj-queue",
        700,
        "10 threads, LISTEN, prefetch_multiplier 2, persistent connections (its guide)",
    ),
    on_redis(
        "celery",
        800,
        "10 threads, results ignored, prefetch multiplier 64 (its guide, for short "
        "tasks)",
    ),
    on_redis("dramatiq", 2_500, "1 process, 10 threads, no results"),
    on_redis("huey", 3_000, "10 threads, no results"),
    on_redis(
        "rq", 240, "SimpleWorker, which does not fork (its benchmark), no results"
    ),
]
BY_NAME = {system.name: system for system in SYSTEMS}
QUICK = ["bare-10", "bare-100", "bare-insert", "pgjobs", "pgjobs-prefetch"]
# What the figures of all others are divided by.
REFERENCES = QUICK
