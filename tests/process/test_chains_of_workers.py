"""Chains and batches under worker processes that are killed, and operators."""

import random

import pytest

from pgjobs import chain, enqueue, group
from pgjobs.models import Job, Note
from tests import tasks
from tests.actors import execute
from tests.processes import (
    LONGEST_TEST,
    drain,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)

pytestmark = shared_queue

# Jobs that began although one before them had not succeeded.
TOO_EARLY = """
    SELECT job.id, predecessor.id FROM pgjobs_predecessor AS link
    JOIN pgjobs_job AS job ON job.id = link.job_id
    JOIN pgjobs_job AS predecessor ON predecessor.id = link.predecessor_id
    WHERE job.attempts > 0 AND link.needs = 'success'
        AND (
            predecessor.status <> 'SUCCESSFUL'
            OR job.started_at < predecessor.finished_at
        )
"""
OPEN = """
    SELECT link.* FROM pgjobs_predecessor AS link
    JOIN pgjobs_job AS job ON job.id = link.job_id
    WHERE is_open AND job.status IN ('READY', 'RUNNING', 'SUCCESSFUL')
"""


def test_next_job_of_a_chain_starts_at_once_even_on_another_worker(start_worker):
    """Both workers poll once a minute, so only a notification makes it fast."""
    for queue_name in ("one", "other"):
        start_worker("--queues", queue_name, "--poll", "600")
    parts = [
        tasks.noop.using(queue_name=queue_name).bind()
        for _ in range(10)
        for queue_name in ("one", "other")
    ]
    enqueue(chain(*parts))
    wait_for_all("SUCCESSFUL")
    assert execute(TOO_EARLY) == []


def test_drain_runs_a_chain_to_its_end_even_if_nothing_can_be_notified():
    jobs = enqueue(chain(*[tasks.noop.bind() for _ in range(5)]))
    batch = enqueue(group([tasks.noop.bind()] * 5, then=tasks.noop.bind()))
    drain(listen=False, slots=2)
    assert set(Job.objects.values_list("status", flat=True)) == {"SUCCESSFUL"}
    assert jobs
    assert batch


def test_job_can_add_to_its_batch(start_worker):
    start_worker()
    batch = enqueue(group([tasks.add_to_batch.bind(3)], then=tasks.noop.bind()))
    wait_for_all("SUCCESSFUL")
    assert batch.progress().successful == 4
    assert Job.objects.count() == 5
    last = Job.objects.get(batch=None)
    assert last.started_at > max(job.finished_at for job in batch.jobs.all())


def test_chain_of_a_killed_worker_goes_on_after_the_rescue(start_worker, tmp_path):
    path = str(tmp_path / "held")
    impatient = {"HEARTBEAT_INTERVAL": 0.3, "LEASE_DURATION": 3}
    victim = start_worker("--concurrency", "1", settings=impatient)
    first, second = enqueue(chain(tasks.hold.bind(path), tasks.noop.bind()))
    wait_for(lambda: tasks.lines(path), "the first runs")
    victim.kill()
    tasks.let_go(path)
    start_worker(settings=impatient)
    wait_for_status(second, "SUCCESSFUL")
    first.refresh_from_db()
    assert (first.status, first.crashes) == ("SUCCESSFUL", 1)


@pytest.mark.slow
def test_nothing_waits_for_ever_whatever_workers_and_operators_do(start_worker):
    chance = random.Random(4)
    impatient = {"HEARTBEAT_INTERVAL": 0.3, "LEASE_DURATION": 2}

    def start():
        return start_worker("--concurrency", "4", settings=impatient)

    def part(depth=0):
        kind = chance.choice(["job", "job", "chain", "group"][: 4 - depth])
        if kind == "job" or depth > 2:
            return chance.choice(
                [
                    tasks.noop.bind(),
                    tasks.sleep.bind(0.01),
                    tasks.noop.using(lock=f"lock-{chance.randrange(3)}").bind(),
                    tasks.noop.using(max_running=1).bind(),
                    tasks.fail_with.bind("no"),
                ]
            )
        parts = [part(depth + 1) for _ in range(chance.randint(1, 4))]
        return chain(*parts) if kind == "chain" else group(parts)

    workers = [start(), start()]
    for round in range(30):
        parts = [part() for _ in range(chance.randint(1, 3))]
        then = tasks.noop.using(after_failure="run").bind()
        enqueue(chain(group(parts, then=then, on_failure=then), tasks.noop.bind()))
        ids = list(Job.objects.order_by("?").values_list("pk", flat=True)[:3])
        some = Job.objects.filter(pk__in=ids)
        chance.choice([some.cancel, some.retry, some.fail, some.retry, some.discard])()
        if round % 10 == 5:
            workers.pop(0).kill()
            workers.append(start())
    unfinished = Job.objects.filter(finished_at=None)
    wait_for(
        lambda: not unfinished.exists(), "all jobs have ended", timeout=LONGEST_TEST
    )
    assert execute(OPEN) == []
    wait_for(lambda: not Note.objects.exists(), "nothing is left to be told")
    lines = Job.objects.exclude(line=None)
    wait_for(lambda: not lines.exists(), "all have been seen")
