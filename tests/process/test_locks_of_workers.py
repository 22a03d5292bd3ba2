"""Locks under several worker processes that are killed, and operators."""

import random
from itertools import pairwise

import pytest

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Job, Note
from tests import tasks
from tests.actors import session
from tests.processes import (
    LONGEST_TEST,
    SOON,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)

pytestmark = shared_queue

# Workers look for what others may have missed after a part of this.
SLEEPY = {"HEARTBEAT_INTERVAL": 300, "LEASE_DURATION": 3_000}
# The number of jobs that have a place of a lock.
CROWDED = """
    SELECT keys ->> 'lock' FROM pgjobs_job
    WHERE status IN ('READY', 'RUNNING') AND keys ? 'lock'
    GROUP BY 1 HAVING count(*) > 1
"""
PLACES = """
    SELECT count(*) FROM pgjobs_job
    WHERE status IN ('READY', 'RUNNING') AND keys ? 'limit_key'
"""


def test_four_jobs_of_a_lock_write_abcd_every_time(start_worker, tmp_path):
    workers = [start_worker("--concurrency", "4", "--poll", "600") for _ in range(2)]
    runs = [str(tmp_path / str(number)) for number in range(100)]
    enqueue_many(
        [
            tasks.append_letter.using(lock=path).bind(path, letter)
            for letter in "abcd"
            for path in runs
        ]
    )
    wait_for_all("SUCCESSFUL", timeout=LONGEST_TEST)
    assert {tmp_path.joinpath(path).read_text() for path in runs} == {"abcd"}
    names = set(Job.objects.values_list("attempts", flat=True))
    assert names == {1}
    assert all(worker.is_alive for worker in workers)


def test_next_job_of_a_lock_starts_at_once_even_on_another_worker(start_worker):
    """Both workers sleep for long, so only a notification makes it fast."""
    for queue_name in ("one", "other"):
        start_worker("--queues", queue_name, "--poll", "600", settings=SLEEPY)
    jobs = [
        tasks.noop.using(lock="door", queue_name=queue_name).bind()
        for _ in range(10)
        for queue_name in ("one", "other")
    ]
    enqueue_many(jobs)
    wait_for_all("SUCCESSFUL")
    times = list(Job.objects.order_by("pk").values_list("started_at", "finished_at"))
    gaps = sorted(
        (after[0] - before[1]).total_seconds() for before, after in pairwise(times)
    )
    assert gaps[0] >= 0
    assert gaps[len(gaps) // 2] < SOON


def test_lock_of_a_killed_worker_is_free_after_the_rescue(start_worker, tmp_path):
    path = str(tmp_path / "held")
    impatient = {"HEARTBEAT_INTERVAL": 0.3, "LEASE_DURATION": 3}
    victim = start_worker("--concurrency", "1", settings=impatient)
    holder = enqueue(tasks.hold.using(lock="door", max_crashes=1), path)
    wait_for(lambda: tasks.lines(path), "the holder runs")
    later = enqueue(tasks.noop.using(lock="door"))
    wait_for(
        lambda: Job.objects.filter(line="lock door").exists(), "the later one waits"
    )
    victim.kill()
    start_worker(settings=impatient)
    wait_for_status(holder, "FAILED")
    wait_for_status(later, "SUCCESSFUL")


@pytest.mark.slow
def test_locks_and_limits_hold_whatever_workers_and_operators_do(start_worker):
    """Kill -9, cancel, retry, delete: never two of a lock, and nothing is stuck."""
    chance = random.Random(4)
    impatient = {"HEARTBEAT_INTERVAL": 0.3, "LEASE_DURATION": 2}

    def start():
        return start_worker("--concurrency", "4", settings=impatient)

    workers = [start(), start()]
    enqueue_many(
        [
            tasks.sleep.using(
                lock=f"lock-{number % 5}",
                lock_mode=chance.choice(["ordered", "mutex"]),
                max_running=4,
                max_crashes=50,
            ).bind(chance.uniform(0, 0.02))
            for number in range(120)
        ]
    )
    with session() as watcher:
        for number in range(30):
            ids = list(Job.objects.order_by("?").values_list("pk", flat=True)[:5])
            some = Job.objects.filter(pk__in=ids)
            act = chance.choice(["cancel", "retry", "retry", "fail", "discard"])
            getattr(some, act)()
            assert watcher.execute(CROWDED) == []
            assert watcher.execute(PLACES)[0][0] <= 4
            if number == 15:
                workers.pop(0).kill()
                start()
    unfinished = Job.objects.filter(finished_at=None)
    wait_for(
        lambda: not unfinished.exists(), "all jobs have ended", timeout=LONGEST_TEST
    )
    left = Job.objects.exclude(line=None)
    wait_for(
        lambda: not (left.exists() or Note.objects.exists()), "all ends are seen to"
    )
