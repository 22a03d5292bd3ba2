"""Pruning changes nothing about how batches, chains and dependencies end."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pgjobs import chain, enqueue, group
from pgjobs.models import Batch, Job, Predecessor
from pgjobs.queue import upkeep
from tests.actors import admit, execute, run_next, session
from tests.processes import drain, run, shared_queue
from tests.tasks import fail_with, noop

pytestmark = shared_queue
ALL_AT_ONCE = dict.fromkeys(("SUCCESSFUL", "FAILED", "CANCELLED"), 0)
NO = fail_with.bind("no")
LATER = noop.using(run_after=timedelta(hours=1))


def prune() -> list[int]:
    """Prune jobs and batches of any age; return the ids of the jobs that are left."""
    upkeep.prune(execute, ALL_AT_ONCE)
    Batch.objects.update(enqueued_at=timezone.now() - timedelta(hours=2))
    upkeep.prune_batches(execute)
    return list(Job.objects.order_by("pk").values_list("pk", flat=True))


def status_of(job: Job) -> str:
    return Job.objects.get(pk=job.pk).status


def end_of_all() -> None:
    Job.objects.filter(status="SCHEDULED").run_now()
    drain()


@pytest.mark.parametrize("end", ["FAILED", "CANCELLED"])
def test_batch_ends_as_if_its_members_were_not_pruned(end):
    enqueue(chain(group([NO, LATER.bind()]), noop.bind()))
    first, _, last = Job.objects.order_by("pk")
    first.cancel() if end == "CANCELLED" else drain()
    drain()
    assert status_of(first) == end
    assert first.pk in prune()
    end_of_all()
    assert status_of(last) == "CANCELLED"
    prune()
    assert not Job.objects.exists()
    assert not Batch.objects.exists()


@pytest.mark.parametrize("end", ["FAILED", "CANCELLED", "SCHEDULED"])
@pytest.mark.parametrize("act", ["delete", "discard"])
@pytest.mark.parametrize("others", [[], [LATER.bind()]])
def test_batch_does_not_end_better_because_somebody_deletes_a_job(end, act, others):
    """As who empties the list of failed jobs while the rest of the batch goes on."""
    member = NO if end == "FAILED" else LATER.bind()
    batch = enqueue(group([member, *others]))
    last = enqueue(noop.using(after=[batch]))
    first = batch.jobs.order_by("pk").first()
    if end == "CANCELLED":
        first.cancel()
    if others:
        drain()
    elif end == "FAILED":
        Job.objects.filter(pk=first.pk).fail("no")
    getattr(Job.objects.filter(pk=first.pk), act)()
    end_of_all()
    assert status_of(last) == "CANCELLED"
    reason = (
        f"Cancelled: a job that was deleted from batch {batch.pk} had not succeeded."
    )
    assert Job.objects.get(pk=last.pk).reason == reason
    late = enqueue(noop.using(after=[batch]))
    drain()
    assert status_of(late) == "CANCELLED"


def test_batch_whose_successful_job_is_deleted_is_successful():
    batch = enqueue(group([noop.bind(), LATER.bind()]))
    last = enqueue(noop.using(after=[batch]))
    drain()
    batch.jobs.filter(status="SUCCESSFUL").discard()
    end_of_all()
    assert status_of(last) == "SUCCESSFUL"


@pytest.mark.parametrize("end", ["FAILED", "CANCELLED"])
def test_job_that_comes_later_finds_the_batch_as_it_ended(end):
    batch = enqueue(group([noop.bind(), NO]))
    if end == "CANCELLED":
        batch.jobs.filter(task=fail_with.name).cancel()
    drain()
    upkeep.prune(execute, {"CANCELLED": 0, "FAILED": 0})
    job = enqueue(noop.using(after=[batch]))
    drain()
    assert status_of(job) == "CANCELLED"


def test_failure_of_a_batch_stays_one_beside_what_was_cancelled():
    batch = enqueue(group([LATER.bind(), NO]))
    drain()
    batch.jobs.filter(status="SCHEDULED").cancel()
    upkeep.prune(execute, {"FAILED": 0})
    job = enqueue(noop)
    Job.objects.filter(pk=job.pk).update(
        keys={"after_batches": [batch.pk], "needs": "failure"}
    )
    drain()
    assert status_of(job) == "SUCCESSFUL"


def test_success_stays_while_its_successor_has_not_learned_of_it():
    """The row of the successor is held while its predecessor ends."""
    first = enqueue(noop)
    second = enqueue(noop.using(after=[first]))
    admit()
    with session() as other:
        other.begin()
        other.execute(f"SELECT FROM pgjobs_job WHERE id = {second.pk} FOR UPDATE")
        run_next()
        admit()
        assert first.pk in prune()
        other.rollback()
    drain()
    assert status_of(second) == "SUCCESSFUL"


def test_batch_stays_while_its_successor_has_not_learned_of_it():
    batch = enqueue(group([noop.bind()]))
    second = enqueue(noop.using(after=[batch]))
    admit()
    with session() as other:
        other.begin()
        other.execute(f"SELECT FROM pgjobs_job WHERE id = {second.pk} FOR UPDATE")
        run_next()
        admit()
        prune()
        assert Batch.objects.exists()
        other.rollback()
    drain()
    assert status_of(second) == "SUCCESSFUL"


@pytest.mark.parametrize("is_batch", [False, True])
def test_what_a_job_names_stays_until_an_admission_has_seen_the_job(is_batch):
    """As while no worker runs."""
    first = enqueue(group([noop.bind()])) if is_batch else enqueue(noop)
    drain()
    second = enqueue(noop.using(after=[first]))
    prune()
    drain()
    assert status_of(second) == "SUCCESSFUL"


def test_rest_of_a_failed_chain_stays_as_long_as_the_retry_may_bring_it_back():
    jobs = enqueue(chain(NO, noop.bind(), noop.bind()))
    drain()
    upkeep.prune(execute, {"SUCCESSFUL": 0, "CANCELLED": 0})
    jobs[0].retry()
    Job.objects.filter(pk=jobs[0].pk).update(task=noop.name, kwargs={})
    drain()
    assert [status_of(job) for job in jobs] == ["SUCCESSFUL"] * 3


def test_revived_job_takes_a_success_that_was_pruned_for_a_success():
    first, second = enqueue(noop), enqueue(fail_with, "no")
    batch = enqueue(group([noop.bind()]))
    last = enqueue(noop.using(after=[first, batch, second]))
    drain()
    assert status_of(last) == "CANCELLED"
    upkeep.prune(execute, {"SUCCESSFUL": 0, "CANCELLED": 0})
    Batch.objects.update(enqueued_at=timezone.now() - timedelta(hours=2))
    upkeep.prune_batches(execute)
    assert set(Job.objects.all()) == {second, last}
    second.retry()
    second.succeed()
    drain()
    assert status_of(last) == "SUCCESSFUL"


def test_everything_goes_in_the_end():
    enqueue(chain(NO, group([noop.bind(), noop.bind()]), noop.bind()))
    enqueue(group([noop.bind(), NO], on_failure=noop.bind(), then=noop.bind()))
    run(noop)
    drain()
    assert prune() == []
    assert not Predecessor.objects.exists()
    assert not Batch.objects.exists()
