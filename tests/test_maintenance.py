"""What every worker does for all: after a full batch the next one follows at once."""

import pytest
from django.utils import timezone

from pgjobs import enqueue
from pgjobs.models import Job, work
from pgjobs.worker import Loop
from pgjobs.worker.maintenance import Chore
from tests.actors import Hand, hours, job_that_is
from tests.processes import running_worker, shared_queue, wait_for, wait_for_all
from tests.tasks import noop

pytestmark = shared_queue

SOON = 5.0  # seconds; far from a minute, the shortest pause between two chores


@pytest.fixture
def loop(settings, monkeypatch):
    """A worker that runs nothing and has pauses of minutes between its chores."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    monkeypatch.setattr(work, "BATCH", 2)
    with running_worker(queues=("none",), poll=600) as loop:
        yield loop


def begin(loop: Loop, chore: Chore) -> None:
    chore.due = 0
    loop.bell.ring()


def test_jobs_of_the_dead_are_rescued_without_a_pause_after_a_full_batch(loop):
    dead = Hand("dead")
    for _ in range(5):
        enqueue(noop)
    assert len(dead.claim(5)) == 5
    dead.vanish()
    begin(loop, loop.maintenance.rescuing)
    wait_for_all("READY", timeout=SOON)


def test_old_jobs_are_pruned_without_a_pause_after_a_full_batch(loop):
    long_ago = timezone.now() - hours(99_999)
    for _ in range(5):
        job_that_is("SUCCESSFUL", finished_at=long_ago)
    young = job_that_is("SUCCESSFUL")
    begin(loop, loop.maintenance.pruning)
    wait_for(lambda: Job.objects.count() == 1, "they are deleted", SOON)
    assert Job.objects.get() == young
