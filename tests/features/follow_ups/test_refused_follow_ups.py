"""A follow-up is never enqueued without what its task declares."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pgjobs import enqueue, task
from pgjobs.models import Job, TaskDefinition
from tests import tasks
from tests.actors import Hand, execute, session
from tests.processes import (
    drain,
    run,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)
from tests.support.checks import found
from tests.support.declared import store_definitions

pytestmark = [shared_queue, pytest.mark.usefixtures("defined")]
ALONE = {"queue_name": "mail", "lock": "door", "unique_key": "one"}


@task(on_conflict="raise", **ALONE)
def raises(job_id: int):
    pass


@task(on_conflict="skip", **ALONE)
def skips(job_id: int):
    pass


@task(priority=9, timeout=50, max_attempts=7, on_conflict="skip", **ALONE)
def refuses(other: int):
    pass


@pytest.fixture
def defined(transactional_db):
    """The database knows the tasks of this module, as after `migrate`."""
    store_definitions("default")
    yield
    TaskDefinition.objects.all().delete()


def declared(**options):
    """Declare a task for the length of a test."""

    def handle(job_id: int, region: str = "eu"):
        pass

    handle.__qualname__ = handle.__name__ = f"refused_{next(numbers)}"
    made = task(**options)(handle)
    store_definitions("default")
    return made


numbers = iter(range(1_000))


def followers(name: str) -> list[Job]:
    return list(Job.objects.filter(task=name).order_by("pk"))


def end_of_a_job_followed_by(follow_up) -> Job:
    """Return the job, ended by a worker's own statement; its follower is not run."""
    enqueue(tasks.noop.using(on_success=follow_up, priority=100))
    hand = Hand()
    claimed = hand.claim_one()
    assert hand.succeed(claimed)
    return Job.objects.get(pk=claimed.id)


def test_follow_up_whose_key_is_taken_is_not_made_and_the_ended_job_says_so():
    holder = enqueue(raises.using(lock=None, run_after=timedelta(hours=1)), 1)
    ended = end_of_a_job_followed_by(raises)
    assert ended.status == "SUCCESSFUL"
    assert ended.reason == (
        f"Its follow-up {raises.name} was not enqueued: "
        f"Job {holder.pk} ({raises.name}) already holds the unique key 'one'."
    )
    assert followers(raises.name) == [holder]


def test_what_a_failed_job_says_of_its_follow_up_comes_after_why_it_failed():
    enqueue(raises.using(run_after=timedelta(hours=1)), 1)
    job = run(tasks.fail_with.using(on_failure=raises), "no")
    assert job.status == "FAILED"
    first, second = job.reason.split("\n")
    assert first == "ValueError: no"
    assert second.startswith(f"Its follow-up {raises.name} was not enqueued: Job ")


def test_worker_stores_the_end_again_once_another_transaction_frees_the_key():
    """Meanwhile the worker goes on with other jobs."""
    with running_worker() as loop, session() as other:
        other.begin()
        other.execute(f"SELECT pgjobs_enqueue('{skips.name}', '{{\"job_id\": 1}}')")
        job = enqueue(tasks.noop.using(on_success=skips))
        wait_for(lambda: loop.recorder.in_flight.failing, "the end waits for the key")
        beside = [enqueue(tasks.noop) for _ in range(5)]
        for each in beside:
            wait_for_status(each, "SUCCESSFUL")
        job.refresh_from_db()
        assert (job.status, followers(skips.name)) == ("RUNNING", [])
        other.rollback()
        wait_for_status(job, "SUCCESSFUL")
    (follower,) = followers(skips.name)
    assert (follower.queue_name, follower.unique_key) == ("mail", "one")
    assert follower.keys == {"lock": "door", "is_ordered": True}


@pytest.mark.parametrize(
    "sqlstate", ["40001", "40P01", "55P03", "53100", "57P01", "58030"]
)
def test_error_that_passes_by_itself_keeps_the_end_for_another_try(sqlstate):
    job = enqueue(tasks.noop.using(on_success=skips))
    hand = Hand()
    claimed = hand.claim_one()
    execute(
        "CREATE FUNCTION pass_by() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$BEGIN RAISE 'passes' USING ERRCODE = '{sqlstate}'; END$$;"
        " CREATE TRIGGER pass_by BEFORE INSERT ON pgjobs_job"
        " FOR EACH ROW WHEN (NEW.unique_key = 'one') EXECUTE FUNCTION pass_by()"
    )
    try:
        with pytest.raises(Exception, match="passes"):
            hand.succeed(claimed)
    finally:
        execute("DROP FUNCTION pass_by() CASCADE")
    job.refresh_from_db()
    assert (job.status, followers(skips.name)) == ("RUNNING", [])
    assert hand.succeed(claimed)
    assert len(followers(skips.name)) == 1


def test_job_whose_arguments_are_refused_has_all_that_its_task_declares():
    ended = end_of_a_job_followed_by(refuses)
    (follower,) = followers(refuses.name)
    assert ended.reason == ""
    assert follower.kwargs == {"job_id": ended.pk}
    assert (follower.queue_name, follower.priority) == ("mail", 9)
    assert (follower.timeout, follower.max_attempts) == (50, 7)
    assert (follower.unique_key, follower.unique_for) == ("one", "unfinished")
    assert follower.keys == {"lock": "door", "is_ordered": True}
    end_of_a_job_followed_by(refuses)  # its key is taken
    assert len(followers(refuses.name)) == 1
    drain()
    follower.refresh_from_db()
    assert (follower.status, follower.attempts) == ("FAILED", 1)
    assert "job_id: is no parameter of this task" in follower.reason


def test_job_of_a_task_that_is_gone_has_all_that_it_declared():
    """An old worker that starts during a deploy takes the new tasks for gone."""
    follow_up = declared(unique_key="of-{region}", lock="door", queue_name="mail")
    TaskDefinition.objects.filter(name=follow_up.name).update(gone_at=timezone.now())
    ended = end_of_a_job_followed_by(follow_up)
    (follower,) = followers(follow_up.name)
    assert follower.kwargs == {"job_id": ended.pk, "region": "eu"}
    assert (follower.queue_name, follower.unique_key) == ("mail", "of-eu")
    assert follower.keys == {"lock": "door", "is_ordered": True}


@pytest.mark.parametrize("option", ["lock", "unique_key", "limit_key", "rate_key"])
def test_follow_up_whose_key_only_python_knows_is_not_made_without_it(option):
    with_it = {"limit_key": {"max_running": 1}, "rate_key": {"rate": "1/second"}}
    follow_up = declared(
        **{option: lambda job_id, region: region}, **with_it.get(option, {})
    )
    ended = end_of_a_job_followed_by(follow_up)
    assert followers(follow_up.name) == []
    assert f"The {option} of {follow_up.name} is a function of Python's" in ended.reason
    declared(on_success=follow_up)
    assert f"whose {option} is a function" in found()["pgjobs.E062"]


def test_meta_that_has_no_room_for_the_parent_is_not_handed_on():
    meta = {"text": "x" * 3_980}
    job = enqueue(tasks.noop.using(on_success=skips))
    Job.objects.filter(pk=job.pk).update(meta=meta)
    hand = Hand()
    claimed = hand.claim_one()
    assert hand.succeed(claimed)
    (follower,) = followers(skips.name)
    assert (follower.unique_key, follower.meta) == ("one", {"parent_id": claimed.id})
