"""What follows a job's end is a job, enqueued in the transaction that stores it."""

import pytest
from django.db import IntegrityError, transaction

from pgjobs import enqueue, enqueue_many, publish, subscribe, task
from pgjobs.exceptions import InvalidTask
from pgjobs.models import Job, TaskDefinition
from pgjobs.tasks.registry import registry
from tests import tasks
from tests.actors import Hand, execute
from tests.processes import drain, run, shared_queue
from tests.queue.test_enqueue import check_that_one_array_inserts_them
from tests.sql import psql
from tests.support.checks import found
from tests.support.declared import store_definitions, store_subscriptions
from tests.telemetry.test_meta import within

pytestmark = shared_queue


@task(queue_name="care", priority=7)
def care(job_id: int) -> str:
    """Return the end of the job that this one follows."""
    return Job.objects.get(pk=job_id).status


@pytest.fixture
def defined(transactional_db):
    """The database knows the tasks of this module, as after `migrate`."""
    store_definitions("default")
    yield
    TaskDefinition.objects.all().delete()


@task(on_success=care, on_failure=care, max_attempts=1)
def watched(fails: bool = False):
    if fails:
        raise ValueError("no")


@task(on_success=care, atomic=True)
def watched_atomic():
    pass


@task(on_success="tests.care")
async def watched_async():
    pass


def declared(**options):
    """Declare a task for the length of a test."""

    def handle(job_id: int = 0):
        pass

    handle.__qualname__ = handle.__name__ = f"handle_{len(registry.tasks)}"
    return task(**options)(handle)


def followers() -> list[Job]:
    return list(Job.objects.filter(task=care.name).order_by("pk"))


@pytest.mark.usefixtures("defined")
@pytest.mark.parametrize("listens", [True, False])
@pytest.mark.parametrize(
    ("bound", "end"),
    [
        (watched.bind(), "SUCCESSFUL"),
        (watched.bind(fails=True), "FAILED"),
        (watched_atomic.bind(), "SUCCESSFUL"),
        (watched_async.bind(), "SUCCESSFUL"),
    ],
)
def test_end_of_a_job_is_followed_by_another_in_the_same_drain(bound, end, listens):
    (job,) = enqueue_many([bound])
    drain(listen=listens)
    (follower,) = followers()
    assert follower.kwargs == {"job_id": job.pk}
    assert (follower.status, follower.return_value) == ("SUCCESSFUL", end)
    assert (follower.queue_name, follower.priority) == ("care", 7)


@pytest.mark.usefixtures("defined")
def test_only_the_end_that_is_named_is_followed():
    run(tasks.fail_with.using(on_success=care), "no")
    run(tasks.noop.using(on_failure=care))
    job = enqueue(tasks.noop.using(on_success=care, on_failure=care))
    job.cancel()
    assert followers() == []


@pytest.mark.usefixtures("defined")
def test_attempt_that_is_retried_is_not_followed():
    job = run(watched.using(max_attempts=2), fails=True)
    assert (job.status, followers()) == ("SCHEDULED", [])


@pytest.mark.usefixtures("defined")
@pytest.mark.parametrize("act", ["fail", "succeed"])
def test_end_by_an_operator_is_followed_in_the_same_transaction(act):
    job = enqueue(watched)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        getattr(job, act)()
        assert len(followers()) == 1
        raise ZeroDivisionError
    assert followers() == []
    getattr(job, act)()
    assert len(followers()) == 1


@pytest.mark.usefixtures("defined")
def test_each_life_is_followed_once():
    job = run(watched)
    job.retry()
    drain()
    assert [each.kwargs["job_id"] for each in followers()] == [job.pk, job.pk]


@pytest.mark.usefixtures("defined")
def test_worker_that_lost_its_job_is_followed_by_nothing():
    enqueue(watched)
    hand = Hand()
    claimed = hand.claim_one()
    Job.objects.update(lease_token=claimed.lease_token + 1)
    assert not hand.succeed(claimed)
    assert followers() == []


@pytest.mark.usefixtures("defined")
def test_job_that_crashes_for_the_last_time_is_followed():
    enqueue(watched.using(max_crashes=1))
    hand = Hand()
    assert hand.claim_one()
    hand.vanish()
    Hand("other").rescue()
    assert len(followers()) == 1


@pytest.mark.usefixtures("defined")
def test_sql_and_events_make_jobs_that_are_followed():
    subscribe("alarm.raised")(declared(on_success=care))
    store_subscriptions("default")
    psql("SELECT pgjobs_enqueue('tests.watched')")
    publish("alarm.raised")
    drain()
    assert len(followers()) == 2


@pytest.mark.parametrize("defines", [False, True])
def test_follow_up_that_cannot_be_enqueued_fails_visibly(defines):
    """The end of the job itself is stored in any case."""
    if defines:  # `noop` takes no job_id
        store_definitions("default")
    follow_up = tasks.noop if defines else "nothing.there"
    job = run(tasks.noop.using(on_success=follow_up))
    assert job.status == "SUCCESSFUL"
    follower = Job.objects.exclude(pk=job.pk).get()
    assert follower.task == ("tests.noop" if defines else "nothing.there")
    assert follower.kwargs == {"job_id": job.pk}
    TaskDefinition.objects.all().delete()


@pytest.mark.usefixtures("defined")
def test_what_follows_a_job_inherits_its_meta(settings):
    settings.PGJOBS = {"META": ["tests.telemetry.hooks.tenant"]}
    job = within(lambda: enqueue(tasks.noop.using(on_success=care)))
    drain()
    (follower,) = followers()
    assert follower.meta == {"tenant": "acme", "parent_id": job.pk}


@pytest.mark.usefixtures("defined")
def test_what_follows_a_job_has_not_the_metadata_of_its_result():
    job = enqueue(tasks.noop.using(on_success=care))
    Job.objects.filter(pk=job.pk).update(meta={"tenant": "acme", "metadata": {"a": 1}})
    drain()
    (follower,) = followers()
    assert follower.meta == {"tenant": "acme", "parent_id": job.pk}


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_row_that_names_no_task_is_refused(name):
    with pytest.raises(IntegrityError, match="on_failure must be names of tasks"):
        execute(
            "INSERT INTO pgjobs_job (task, keys) VALUES ('tests.noop',"
            " jsonb_build_object('on_failure', %(name)s::text))",
            {"name": name},
        )


@pytest.mark.parametrize("value", [5, "", care.using(priority=1), care.function])
def test_follow_up_must_be_a_task_as_it_was_declared(value):
    with pytest.raises(InvalidTask, match="on_failure must be a task"):
        tasks.noop.using(on_failure=value)


def test_good_follow_ups_pass_the_checks():
    assert found() == {}


@pytest.mark.parametrize(
    ("follow_up", "complaint"),
    [
        ("nothing.there", "no task has that name"),
        (tasks.add, "cannot be enqueued with job_id alone"),
    ],
)
def test_follow_up_that_would_fail_is_found_by_a_check(follow_up, complaint):
    declared(on_failure=follow_up)
    assert complaint in found()["pgjobs.E062"]


def test_circle_of_follow_ups_is_found_by_a_check():
    first = declared(name="tests.first", on_failure="tests.second")
    declared(name="tests.second", on_failure=first)
    assert "leads back to itself" in found()["pgjobs.E062"]


def test_jobs_with_follow_ups_are_inserted_by_one_array(django_assert_num_queries):
    options = {"on_success": "tests.noop"}
    check_that_one_array_inserts_them(django_assert_num_queries, options)
