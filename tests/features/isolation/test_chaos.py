"""Children that are killed and stopped at any point, while many jobs run."""

import os
import random
import signal
import time
from contextlib import suppress

import pytest

from pgjobs import enqueue_many
from pgjobs.models import Attempt, Job
from tests.features.isolation.test_processes import MODULES, is_there
from tests.processes import WorkerProcess, shared_queue
from tests.support import isolated_tasks as isolated

pytestmark = [shared_queue, pytest.mark.slow]

NUMBER = 300
FATES = (
    *[(signal.SIGKILL,)] * 3,
    (signal.SIGTERM,),
    (signal.SIGSTOP,),
    (signal.SIGSTOP, signal.SIGCONT),
)


def children_of(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return found


def test_no_job_is_lost_or_doubled_while_processes_die():
    brief = isolated.pid_slowly.using(max_crashes=100, max_attempts=100, timeout=3)
    jobs = enqueue_many([brief.bind()] * NUMBER)
    worker = WorkerProcess("--concurrency", "4", settings=MODULES)
    seen: set[int] = set()
    chance = random.Random(5)
    ends_at = time.monotonic() + 110
    harms = 0
    while Job.objects.filter(finished_at=None).exists():
        assert time.monotonic() < ends_at, Job.objects.filter(finished_at=None).count()
        warm = set(
            Job.objects.exclude(return_value=None).values_list(
                "return_value", flat=True
            )
        )
        pairs = [
            (keeper, child)
            for keeper in children_of(worker.pid)
            for child in children_of(keeper)
        ]
        seen.update(pid for pair in pairs for pid in pair)
        # A process is to be met at work, and not only as it starts.
        if harms < 30 and (met := [pair for pair in pairs if pair[1] in warm]):
            harms += 1
            victim = chance.choice(chance.choice(met))
            for number in chance.choice(FATES):
                with suppress(OSError):
                    os.kill(victim, number)
        time.sleep(0.1)
    assert worker.stop() == 0, worker.printed
    assert not any(map(is_there, seen))
    for job in jobs:
        job.refresh_from_db()
        assert (job.status, job.return_value in seen) == ("SUCCESSFUL", True)
        failed = Attempt.objects.filter(job=job).count()
        assert job.attempts == failed + 1
        assert job.crashes + job.failures <= failed
    assert Job.objects.filter(crashes__gt=0).exists()
