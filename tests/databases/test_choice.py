"""Which database a job belongs to."""

import pytest
from asgiref.sync import async_to_sync
from django.core.checks import run_checks
from django.db import transaction
from django.test import override_settings

from pgjobs import aenqueue, drain, enqueue, enqueue_many, task
from pgjobs.base.connections import listen_changes
from pgjobs.exceptions import AmbiguousDatabase, InvalidTask
from pgjobs.models import Job
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
        assert Job.objects.count() == 0  # reading needs no answer
        assert enqueue(noop.using(database="eu"))._state.db == "eu"


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
    with pytest.raises(InvalidTask, match="'default' and 'eu'"):
        enqueue_many([there.bind(), noop.bind()])
    assert counts() == (0, 2)


@both_committing
def test_job_that_runs_enqueues_in_its_database():
    enqueue(enqueue_noop.using(database="eu"))
    assert drain(database="eu") == 2
    assert counts() == (0, 2)
    assert {each._state.db for each in Job.objects.using("eu")} == {"eu"}


@both_committing
@override_settings(DATABASE_ROUTERS=[RouterTo("default")])
def test_job_that_runs_stays_in_its_database_whatever_a_router_says():
    enqueue(enqueue_noop.using(database="eu"))
    assert drain(database="eu") == 2
    assert counts() == (0, 2)


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
