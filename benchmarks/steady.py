"""What becomes of a queue that works for hours: `python -m benchmarks steady`.

A worker runs jobs at a fixed rate, finished ones are pruned after a while, and then a
transaction keeps its snapshot for some minutes. Each half minute a line says how large
the tables are, how long jobs waited, and what pruning and vacuuming cost.
"""

import json
import os
import select
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import psycopg

from .catalogue import pgjobs
from .processes import TICKS, cpu_seconds_of_tree, descendants
from .server import COUNTER, running_server
from .stage import Stage, set_up, template_of

WINDOW = 30.0  # seconds
BATCH = 10  # jobs of one commit
PROBE = 0.005  # seconds that a probe of the machine sleeps
SIZES = """
SELECT relname, pg_relation_size(indexrelid) FROM pg_stat_user_indexes
WHERE relname LIKE 'pgjobs\\_%'
UNION ALL
SELECT relname || ' heap', pg_table_size(relid) FROM pg_stat_user_tables
WHERE relname LIKE 'pgjobs\\_%'
"""
INDEXES = """
SELECT indexrelname, pg_relation_size(indexrelid) FROM pg_stat_user_indexes
WHERE relname = 'pgjobs_job' ORDER BY 1
"""
ROWS = """
SELECT n_live_tup, n_dead_tup, autovacuum_count FROM pg_stat_user_tables
WHERE relname = 'pgjobs_job'
"""
# By the time of statements. That includes their waits, and leaves out commits: pruning
# looks dearer than it is.
PRUNING = f"""
SELECT
    coalesce(sum(total_exec_time) FILTER (
        WHERE query LIKE '%%DELETE FROM pgjobs_job%%'
    ), 0),
    coalesce(sum(total_exec_time), 0)
FROM {COUNTER} JOIN pg_database ON pg_database.oid = dbid
WHERE datname = %s
"""


class Plan(NamedTuple):
    """How long what lasts, in minutes."""

    minutes: float
    retention: float
    pinned: float
    after: float
    rate: int


class Used(NamedTuple):
    """Seconds of the processor, and of statements, until a moment. None: not known."""

    server: float | None
    vacuum: float | None
    worker: float
    pruning: float | None
    statements: float | None


@dataclass
class Window:
    """What was seen in half a minute."""

    minute: float
    phase: str
    jobs: int
    heap: int  # bytes of all tables
    indexes: int
    index_sizes: dict[str, int]  # of the table of jobs
    live_rows: int
    dead_rows: int
    vacuums: int
    wait_p50: float  # milliseconds from COMMIT to the first line of the task
    wait_p99: float
    wait_max: float
    probe_p99: float  # milliseconds by which a short sleep of the driver is late
    server: float | None  # cores; None, here and below: not known
    worker: float
    statements: float | None  # seconds that all statements took
    prune: float | None  # share of that time
    vacuum: float | None  # share of the server's processor time

    def __str__(self) -> str:
        return (
            f"{self.minute:6.1f} {self.phase:8}{self.jobs:7,}"
            f"{self.heap / 1e6:8.1f}{self.indexes / 1e6:8.1f}"
            f"{self.live_rows:9,}{self.dead_rows:9,}{self.vacuums:4}"
            f"{self.wait_p50:8.2f}{self.wait_p99:8.1f}{self.wait_max:8.0f}"
            f"{self.probe_p99:8.1f}{shown(self.server, '.3f', '-'):>7}"
            f"{self.worker:7.3f}{shown(self.prune, '.1%', '-'):>7}"
            f"{shown(self.vacuum, '.1%', '-'):>7}"
        )


HEAD = (
    f"{'minute':>6} {'phase':8}{'jobs':>7}{'heap MB':>8}{'ind. MB':>8}{'live':>9}"
    f"{'dead':>9}{'vac':>4}{'p50 ms':>8}{'p99 ms':>8}{'max':>8}{'probe':>8}"
    f"{'server':>7}{'worker':>7}{'prune':>7}{'vacuum':>7}"
)


class Stamps:
    """The moments at which jobs were enqueued and started, matched as they come."""

    def __init__(self, path: str):
        self.file = Path(path).open()  # noqa: SIM115
        self.rest = ""
        self.enqueued: dict[int, float] = {}
        self.started: dict[int, float] = {}

    def add(self, enqueued: list[tuple[int, float, float]]) -> None:
        self.enqueued |= {number: after for number, _, after in enqueued}

    def waits(self) -> list[float]:
        """Return the waits of jobs that are known to have started, in milliseconds."""
        *lines, self.rest = (self.rest + self.file.read()).split("\n")
        for line in lines:
            number, at = line.split()
            self.started.setdefault(int(number), float(at))
        known = self.enqueued.keys() & self.started.keys()
        return [
            1e3 * (self.started.pop(each) - self.enqueued.pop(each)) for each in known
        ]


class Steady:
    """The run of a worker at a fixed rate, cut into windows."""

    def __init__(self, stage: Stage, rate: int):
        self.stage = stage
        self.rate = rate
        self.counts = stage.server.count_statements(stage.system.adapter)
        self.stamps = Stamps(stage.stamps.name)
        self.begun = time.monotonic()
        self.at = self.begun
        self.used = self.look()

    def windows(self, phase: str, minutes: float) -> Iterator[Window]:
        for _ in range(max(round(minutes * 60 / WINDOW), 1)):
            number = int(self.rate * WINDOW) // BATCH * BATCH
            first = self.stage.next_number
            self.stage.next_number += number
            self.stage.producer.give_order(
                "enqueue_steadily",
                first=first,
                number=number,
                rate=self.rate,
                batch=BATCH,
            )
            probes = self.probe()
            self.stamps.add(self.stage.producer.answer())
            yield self.window(phase, probes)

    def probe(self) -> list[float]:
        """Sleep shortly until the producer answers; return how late sleeps ended."""
        late = []
        while not select.select([self.stage.producer.process.stdout], [], [], 0)[0]:
            self.stage.check()
            begun = time.monotonic()
            time.sleep(PROBE)
            late.append(1e3 * (time.monotonic() - begun - PROBE))
        return late

    def window(self, phase: str, probes: list[float]) -> Window:
        waits = self.stamps.waits()
        before, self.used = self.used, self.look()
        since, self.at = self.at, time.monotonic()
        seconds = self.at - since
        server = grown(before.server, self.used.server)
        statements = grown(before.statements, self.used.statements)
        heap, indexes, index_sizes = self.sizes()
        live, dead, vacuums = self.execute(ROWS)[0]
        return Window(
            minute=(self.at - self.begun) / 60,
            phase=phase,
            jobs=len(waits),
            heap=heap,
            indexes=indexes,
            index_sizes=index_sizes,
            live_rows=live,
            dead_rows=dead,
            vacuums=vacuums,
            wait_p50=centile(50, waits),
            wait_p99=centile(99, waits),
            wait_max=max(waits, default=0.0),
            probe_p99=centile(99, probes),
            server=share(server, seconds),
            worker=(self.used.worker - before.worker) / seconds,
            statements=statements,
            prune=share(grown(before.pruning, self.used.pruning), statements),
            vacuum=share(grown(before.vacuum, self.used.vacuum), server),
        )

    def sizes(self) -> tuple[int, int, dict[str, int]]:
        sizes = self.execute(SIZES)
        heap = sum(size for name, size in sizes if name.endswith(" heap"))
        indexes = sum(size for _, size in sizes) - heap
        return heap, indexes, dict(self.execute(INDEXES))

    def look(self) -> Used:
        pruning, statements = None, None
        if self.counts:
            name = self.stage.connection.info.dbname
            connection = self.stage.server.connection
            row = connection.execute(PRUNING, [name]).fetchone()
            pruning, statements = (milliseconds / 1e3 for milliseconds in row)
        pid = self.stage.server.pid
        return Used(
            server=cpu_seconds_of_tree(pid) if pid else None,
            vacuum=vacuum_seconds(pid) if pid else None,
            worker=sum(worker.cpu_seconds for worker in self.stage.workers),
            pruning=pruning,
            statements=statements,
        )

    def execute(self, statement: str) -> list[tuple]:
        return self.stage.connection.execute(statement).fetchall()


def vacuum_seconds(pid: int) -> float:
    """Return the processor time of autovacuum, for a server whose sessions stay open.

    Its workers end after each table, so their time is what the postmaster has buried.
    """
    buried = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]
    living = [each for each in descendants(pid) if is_autovacuum(each)]
    alive = sum(map(cpu_seconds_of_tree, living))
    return sum(map(int, buried)) / TICKS + alive


def is_autovacuum(pid: int) -> bool:
    try:
        return b"autovacuum worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def grown(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def shown(value: float | None, how: str, otherwise: str = "not known") -> str:
    return otherwise if value is None else format(value, how)


def centile(which: int, values: list[float]) -> float:
    if len(values) < 2:
        return max(values, default=0.0)
    return statistics.quantiles(values, n=100, method="inclusive")[which - 1]


@contextmanager
def pinned(url: str) -> Iterator[None]:
    """Keep a snapshot, so that no row that dies from now on can be removed."""
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT")
        yield


def measure(stage: Stage, plan: Plan) -> Iterator[Window]:
    steady = Steady(stage, plan.rate)  # before the worker: its statements are counted
    stage.start_idle_worker(settling_seconds=2)
    steady.at, steady.used = time.monotonic(), steady.look()
    phases = [
        ("steady", plan.minutes, nullcontext()),
        ("pinned", plan.pinned, pinned(stage.url)),
        ("after", plan.after, nullcontext()),
    ]
    for name, minutes, context in phases:
        if minutes:
            with context:
                yield from steady.windows(name, minutes)


def summary(windows: list[Window]) -> str:
    """Return what became of sizes and shares, for each phase."""
    lines = []
    for phase in dict.fromkeys(each.phase for each in windows):
        some = [each for each in windows if each.phase == phase]
        half = some[len(some) // 2 :]
        largest = max(each.heap + each.indexes for each in half)
        middle = half[0].heap + half[0].indexes
        waits = statistics.median(each.wait_p99 for each in some)
        lines.append(
            f"{phase}: {shares(some)} second half at most "
            f"{largest / middle:.3f} of its first size; median of p99 {waits:.1f} ms, "
            f"worst {max(each.wait_p99 for each in some):.1f} ms"
        )
    return "\n".join(lines)


def shares(windows: list[Window]) -> str:
    """Return what pruning and vacuum took. The two are shares of different things."""
    prune, vacuum = mean(windows, "prune", "statements"), mean(windows, "vacuum")
    of_statements = "" if prune is None else " of the time of statements"
    of_server = "" if vacuum is None else " of the server's processor time"
    cores = [each.server for each in windows if each.server is not None]
    server = statistics.mean(cores) if cores else None
    return (
        f"prune {shown(prune, '.1%')}{of_statements}; "
        f"vacuum {shown(vacuum, '.1%')}{of_server}; "
        f"server {shown(server, '.3f')}{'' if server is None else ' cores'};"
    )


def mean(windows: list[Window], name: str, whole: str = "server") -> float | None:
    """Return the mean of a share, weighted by what it is a share of."""
    known = [
        (getattr(each, name), getattr(each, whole))
        for each in windows
        if getattr(each, name) is not None
    ]
    parts = sum(part * weight for part, weight in known)
    return share(parts, sum(weight for _, weight in known))


def main(plan: Plan, output: Path | None, url: str | None, **server) -> int:
    retention = {"SUCCESSFUL": plan.retention * 60}
    system = pgjobs(
        "pgjobs",
        plan.rate,
        project="benchmarks.project.steady_settings",
        retention=retention,
    )
    windows: list[Window] = []
    with running_server(url, **server) as found:
        set_up(system, found)
        try:
            with Stage(system, found) as stage:
                print(HEAD, flush=True)  # noqa: T201
                for window in measure(stage, plan):
                    windows.append(window)
                    print(window, flush=True)  # noqa: T201
                    if output:
                        seen = [asdict(each) for each in windows]
                        output.write_text(json.dumps(seen, indent=1) + os.linesep)
        finally:
            found.drop_database(template_of(system))
    print(summary(windows))  # noqa: T201
    return 0
