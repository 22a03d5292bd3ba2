"""Which database a job, a batch or an event belongs to."""

import pytest
from asgiref.sync import async_to_sync
from django.core.checks import run_checks
from django.db import transaction
from django.test import override_settings

from pgjobs import (
    aenqueue,
    chain,
    drain,
    enqueue,
    enqueue_many,
    group,
    publish,
    schedule,
    subscribe,
    task,
)
from pgjobs.base.connections import listen_changes
from pgjobs.exceptions import AmbiguousDatabase, InvalidTask
from pgjobs.models import Batch, Event, Job, Schedule
from pgjobs.testing import assert_enqueued, perform, refute_enqueued, run_jobs
from tests.declared import store_schedules, store_subscriptions
from tests.processes import drain as drain_with_worker
from tests.tasks import add, enqueue_noop, noop

both = pytest.mark.django_db(databases=["default", "eu"])
both_committing = pytest.mark.django_db(transaction=True, databases=["default", "eu"])


class RouterTo:
    """Sends the jobs to one database, and says nothing of other models."""

    def __init__(self, alias):
        self.alias = alias

    def db_for_write(self, model, **hints):
        return self.alias if model._meta.app_label == "pgjobs" else None

    db_for_read = db_for_write


def nothing():
    pass


def enqueue_something():
    enqueue(noop)


def counts() -> tuple[int, int]:
    return tuple(Job.objects.using(alias).count() for alias in ("default", "eu"))


@both
def test_job_is_enqueued_in_the_default_database():
    assert enqueue(noop)._state.db == "default"
    assert counts() == (1, 0)


@both
def test_using_names_the_database():
    job = enqueue(noop.using(database="eu"))
    assert job._state.db == "eu"
    assert noop.using(database="eu").enqueue().pk != job.pk
    assert Job.objects.db_manager("eu").enqueue(noop)._state.db == "eu"
    assert Job.objects.enqueue(noop.using(database="eu"))._state.db == "eu"
    assert counts() == (0, 4)


@both
def test_acts_on_a_job_stay_in_its_database():
    job = enqueue(noop.using(database="eu"))
    twin = enqueue(noop)
    assert job.cancel()
    twin.refresh_from_db()
    assert (job.status, twin.status) == ("CANCELLED", "READY")


def test_unknown_database_is_refused_at_once():
    with pytest.raises(InvalidTask, match=r"DATABASES \(default, eu\), got 'asia'"):
        noop.using(database="asia")
    with pytest.raises(InvalidTask, match="got 5"):
        noop.using(database=5)


@both
def test_task_may_have_a_database_of_its_own():
    european = task(name="tests.european", database="eu")(nothing)
    assert enqueue(european)._state.db == "eu"
    assert enqueue(european.using(database="default"))._state.db == "default"


@both
def test_open_transaction_decides():
    with transaction.atomic(using="eu"):
        assert enqueue(noop)._state.db == "eu"
        assert publish("tests.nothing")._state.db == "eu"
        assert chain(noop.bind(), noop.bind()).enqueue()[1]._state.db == "eu"
    assert enqueue(noop)._state.db == "default"


@both_committing
def test_job_is_rolled_back_with_its_transaction():
    with pytest.raises(ZeroDivisionError), transaction.atomic(using="eu"):
        enqueue(noop)
        1 / 0  # noqa: B018
    assert counts() == (0, 0)


@both
def test_two_open_transactions_are_a_question():
    with transaction.atomic(using="default"), transaction.atomic(using="eu"):
        with pytest.raises(AmbiguousDatabase, match="open in 'default' and 'eu'"):
            enqueue(noop)
        with pytest.raises(AmbiguousDatabase):
            publish("tests.nothing")
        assert Job.objects.count() == 0  # reading needs no answer
        assert enqueue(noop.using(database="eu"))._state.db == "eu"
        assert publish("tests.nothing", database="eu")._state.db == "eu"


@both
@override_settings(PGJOBS={"DATABASES": ["default"]})
def test_transaction_of_a_database_without_a_queue_decides_nothing():
    with transaction.atomic(using="eu"):
        assert enqueue(noop)._state.db == "default"


@both
@override_settings(PGJOBS={"DATABASE": "eu"})
def test_named_database_is_the_only_one_unless_others_are_named():
    with transaction.atomic(using="default"):
        assert enqueue(noop)._state.db == "eu"


@both
@override_settings(DATABASE_ROUTERS=[RouterTo("eu")])
def test_router_is_obeyed():
    assert enqueue(noop)._state.db == "eu"
    with transaction.atomic(using="default"):
        assert enqueue(noop)._state.db == "eu"
    assert Job.objects.count() == 2
    assert enqueue(noop.using(database="default"))._state.db == "default"


@both
@override_settings(DATABASE_ROUTERS=[RouterTo(None)])
def test_router_may_say_nothing():
    with transaction.atomic(using="eu"):
        assert enqueue(noop)._state.db == "eu"
    assert enqueue(noop)._state.db == "default"


@both
def test_router_that_contradicts_the_settings_is_named():
    with (
        override_settings(
            DATABASE_ROUTERS=[RouterTo("eu")], PGJOBS={"DATABASES": ["default"]}
        ),
        pytest.raises(AmbiguousDatabase, match="sends jobs to 'eu'"),
    ):
        enqueue(noop)
    with override_settings(
        DATABASE_ROUTERS=[RouterTo("eu")], PGJOBS={"DATABASE": "default"}
    ):
        assert enqueue(noop)._state.db == "default"


@both
def test_jobs_enqueued_together_are_in_one_database():
    there = noop.using(database="eu")
    jobs = enqueue_many([there.bind(), there.bind()])
    assert {job._state.db for job in jobs} == {"eu"}
    for together in (
        lambda: enqueue_many([there.bind(), noop.bind()]),
        lambda: enqueue(chain(there.bind(), noop.bind())),
        lambda: enqueue(group([noop.bind()], then=there.bind())),
    ):
        with pytest.raises(InvalidTask, match="'default' and 'eu'"):
            together()
    assert counts() == (0, 2)


@both
def test_group_and_what_belongs_to_it_are_in_one_database():
    there = add.using(database="eu")
    batch = enqueue(group([there.bind(1), there.bind(2)], then=there.bind(3)))
    assert batch._state.db == "eu"
    assert Batch.objects.using("default").count() == 0
    assert batch.progress().total == 2
    assert {job._state.db for job in batch.jobs.all()} == {"eu"}
    assert enqueue(add.using(batch=batch), 4)._state.db == "eu"
    assert batch.progress().total == 3
    assert batch.cancel().changed == 3


@both
def test_job_after_another_is_in_its_database():
    first = enqueue(noop.using(database="eu"))
    assert enqueue(noop.using(after=first))._state.db == "eu"
    with pytest.raises(InvalidTask, match=f"Job {first.pk} is in the database 'eu'"):
        enqueue(noop.using(after=first, database="default"))
    with pytest.raises(InvalidTask, match="and the job belongs in"):
        enqueue(noop.using(after=[first, enqueue(noop)]))


@both
def test_job_that_runs_enqueues_in_its_database():
    job = enqueue(enqueue_noop.using(database="eu"))
    assert run_jobs(database="eu")[0] == job
    assert counts() == (0, 2)
    assert {each._state.db for each in Job.objects.using("eu")} == {"eu"}


@both
@override_settings(DATABASE_ROUTERS=[RouterTo("default")])
def test_job_that_runs_stays_in_its_database_whatever_a_router_says():
    enqueue(enqueue_noop.using(database="eu"))
    run_jobs(database="eu")
    assert counts() == (0, 2)


@both
def test_performed_job_enqueues_in_its_database():
    (job,) = perform(enqueue_noop.using(database="eu").bind()).jobs
    assert job._state.db == "eu"


@both
@override_settings(PGJOBS={"MODE": "inline"})
def test_inline_job_runs_in_its_database():
    job = enqueue(add.using(database="eu"), 1, 2)
    assert (job.status, job.return_value) == ("SUCCESSFUL", 3)
    assert counts() == (0, 1)


@both_committing
def test_worker_leaves_what_its_jobs_do_in_its_database():
    enqueue(enqueue_noop.using(database="eu"))
    enqueue(noop)
    drain_with_worker(database="eu")
    assert Job.objects.using("eu").finished().count() == 2
    assert Job.objects.using("default").ready().count() == 1
    assert drain(database="default") == 1


@both_committing
def test_atomic_job_commits_in_its_database():
    atomic = task(name="tests.atomic_here", atomic=True)(enqueue_something)
    job = enqueue(atomic.using(database="eu"))
    assert drain(database="eu") == 2
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"
    assert counts() == (0, 2)


@both_committing
def test_result_is_waited_for_in_the_database_of_the_job():
    job = enqueue(add.using(database="eu"), 1, 2)
    enqueue(noop)  # with the same id, perhaps
    drain(database="eu")
    assert job.wait(timeout=5) == 3


@both
def test_event_is_delivered_in_its_database():
    subscribe("tests.happened")(task(name="tests.handler")(nothing))
    store_subscriptions("default")
    store_subscriptions("eu")
    event = publish("tests.happened", database="eu")
    assert Event.objects.using("default").count() == 0
    (job,) = Job.objects.using("eu").filter(task="tests.handler")
    assert job.delivery.event == event
    assert event.redeliver_all().skipped == 1
    assert Job.objects.using("default").count() == 0
    with pytest.raises(InvalidTask, match="got 'asia'"):
        publish("tests.happened", database="asia")


@both
def test_schedule_is_in_each_database_or_in_one(no_schedules):
    here = task(name="tests.scheduled_here")(nothing)
    schedule(cron="@daily", name="each")(here)
    schedule(cron="@daily", name="only eu", database="eu")(here)
    task(name="tests.there", database="eu", cron="@daily")(enqueue_something)
    for alias in ("default", "eu"):
        store_schedules(alias)
    names = {
        alias: sorted(
            Schedule.objects.using(alias)
            .filter(orphaned=False)
            .values_list("name", flat=True)
        )
        for alias in ("default", "eu")
    }
    assert names["default"] == ["each"]
    assert names["eu"] == ["each", "only eu", "tests.there"]


@both_committing
def test_async_code_enqueues_in_the_named_database():
    job = async_to_sync(aenqueue)(noop.using(database="eu"))
    assert job._state.db == "eu"


@override_settings(PGJOBS={"DATABASES": ["eu", "asia"]})
def test_check_names_an_alias_that_does_not_exist():
    (error,) = [each for each in run_checks() if each.id == "pgjobs.E003"]
    assert error.msg.startswith("PGJOBS['DATABASES'] names 'asia'")


@pytest.mark.parametrize("value", ["eu", [], ["eu", "eu"], [5]])
def test_wrong_list_of_databases_is_refused(value):
    with override_settings(PGJOBS={"DATABASES": value}):
        assert any("DATABASES" in each.msg for each in run_checks())


@override_settings(PGJOBS={"LISTEN": {"eu": {"host": "direct"}}})
def test_listener_goes_around_the_pooler_of_its_own_database():
    assert listen_changes("eu") == {"host": "direct"}
    assert listen_changes("default") == {}


@both
def test_assertions_see_the_jobs_of_all_databases():
    enqueue(add.using(database="eu"), 1, 2)
    assert_enqueued(add, 1, 2)
    with pytest.raises(AssertionError, match="what it should not have"):
        refute_enqueued(add)
    with pytest.raises(AssertionError, match="There are:"):
        assert_enqueued(add, 5)


@pytest.mark.django_db
def test_assertions_leave_out_databases_that_the_test_may_not_use():
    refute_enqueued(add)
    enqueue(add.using(database="default"), 1, 2)
    assert_enqueued(add, 1, 2)
