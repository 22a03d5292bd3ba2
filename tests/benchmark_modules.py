"""Each benchmark of its own runs to its end, at sizes that measure nothing.

CI runs this file by its name and alone, with `python -m pytest -n0`. The benchmarks
make databases and workers of their own, beside which other tests wait.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import locks
from benchmarks.server import running_server
from tests import harness

ROOT = Path(__file__).resolve().parent.parent

# What makes a module small, and the call that runs it.
MODULES = {
    "atomic": "m.JOBS, m.ROUNDS, m.TRACED_JOBS = 2, 1, 2; m.main()",
    "capacity": "m.main(10, os.environ['DATABASE_URL'])",
    "commits": "m.WARM_UP = 0.1; m.main(['--clients', '2', '--workers', '2',"
    " '--seconds', '0.2', '--rounds', '1'])",
    "desk": "m.ROUNDS = 1; sys.argv[1:] = ['--jobs', '20000', 'of queue']; m.main()",
    "durable": "FIGURES['latency'] = partial(m.latency, 2);"
    "FIGURES['processor'] = partial(m.processor, 2, 2, 1);"
    "FIGURES['fitting'] = partial(m.fitting, 20, 20, 2);"
    "m.main([], 'benchmarks.durable_tasks')",
    "events": "FIGURES['publishing'] = partial(m.publishing, 2, 1);"
    "m.main(['publishing'], 'benchmarks.events_tasks')",
    "history": "m.PRUNED, m.SIZE = 500, 500; m.main([2_000])",
    "queues": "m.JOBS, m.ROUNDS = 20, 1; m.CASES['100'] = m.Case(3);m.main(['100'])",
    "running": "FIGURES['async_tasks'] = partial(m.async_tasks, 2, 0.01, 2);"
    "m.main(['async_tasks'], 'benchmarks.running_tasks')",
    "schedules": "FIGURES['lateness'] = partial(m.lateness, 6);"
    "m.main(['lateness'], 'benchmarks.schedules_tasks')",
    "shards": "m.JOBS, m.ROUNDS = 20, 1; m.main([1, 2])",
    "simulation": "m.shards.JOBS, m.SAMPLES, m.BATCHES = 20, 5, 2;"
    "m.ROUNDS, m.JOBS, m.CHECKED_SECONDS = 1, 200, 0.1;"
    "m.RATES, m.LARGE, m.SHARDS = (100,), ((1_000, 2),), (1, 2);"
    "m.main([]); m.main(['--check'])",
    "sql_functions": "m.ROUNDS, m.BATCH = 2, 2; m.main()",
    "steady": "m.WINDOW = 1; m.main(m.Plan(*[0.01] * 4, 20), None,"
    " os.environ['DATABASE_URL'])",
    "ten_thousand": "m.SIZES = ((2, 4), (3, 6), (4, 8));"
    "m.main([next(iter(m.crowds.CROWDS))])",
    "turns": "m.JOBS, m.ROUNDS = {10: 20}, 1; m.main([])",
    "workers": "m.NUMBERS, m.SETTLING, m.SETTLING_IDLE = (1,), 0.1, 0.1;"
    "FIGURES['idle'] = partial(m.idle, 0.1); FIGURES['busy'] = partial(m.busy, 20);"
    "m.CROWDS = (2, 3); FIGURES['schedules'] = partial(m.schedules, 0.1);"
    "FIGURES['subscribers'] = partial(m.subscribers, 20);"
    "m.main(['idle', 'busy', 'schedules', 'subscribers'], 'benchmarks.workers_tasks')",
}
LOCKS = [
    "enqueueing 1,000-limit-keys 4",
    "pickup own-lock 12",
    "claims 0",
    "admission own-limit 4",
    "admission 10,000-rate-keys 4",
    "drain 4 10,000/minute",
    "others 4",
    "drain 4 line",
    "chains one 3",
    "chains fives 5",
    "unique 2 4",
]


@pytest.mark.parametrize("module", MODULES)
def test_benchmark_runs_to_its_end(module):
    code = (
        f"import os, sys; from functools import partial; "
        f"from benchmarks.figures import FIGURES; "
        f"import benchmarks.{module} as m; {MODULES[module]}"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": harness.server_url()},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    assert ended.stdout


def test_benchmark_of_locks_measures_each_figure():
    with running_server(harness.server_url()) as server:
        for figure in [*LOCKS, f"whole 4 {server.pid}"]:
            assert locks.fresh(server, figure) is not None
        for name in ("locks", "tables"):
            server.drop_database(name)
