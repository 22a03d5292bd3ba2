"""Results of `django.tasks` in a project with two databases."""

import pytest
from django.db import transaction

from pgjobs import drain
from pgjobs.models import Job
from tests import standard_tasks
from tests.standard import (
    TaskResultDoesNotExist,
    TaskResultStatus,
    default_task_backend,
    signals,
)
from tests.support.second_database import two_databases  # noqa: F401

both = pytest.mark.django_db(databases=["default", "eu"])
both_committing = pytest.mark.django_db(transaction=True, databases=["default", "eu"])


def enqueue_in_both():
    """Enqueue a job with one id in each database."""
    here = standard_tasks.noop.enqueue()
    with transaction.atomic(using="eu"):
        there = standard_tasks.noop.enqueue()
    pk = there.id.removesuffix("@eu")
    Job.objects.using("eu").filter(pk=pk).update(id=here.id)
    return here.id, f"{here.id}@eu"


@both
def test_id_of_a_result_names_another_database():
    assert "@" not in standard_tasks.noop.enqueue().id
    with transaction.atomic(using="eu"):
        result = standard_tasks.noop.enqueue()
    assert result.id == f"{Job.objects.using('eu').get().pk}@eu"


@both
def test_result_is_found_in_its_database_wherever_it_is_looked_for():
    here, there = enqueue_in_both()
    Job.objects.using("eu").get().cancel()
    for where in ("default", "eu"):
        with transaction.atomic(using=where):
            found = [default_task_backend.get_result(each) for each in (here, there)]
        assert [each.id for each in found] == [here, there]
        assert [each.status for each in found] == [
            TaskResultStatus.READY,
            TaskResultStatus.FAILED,
        ]
    found[1].refresh()
    assert found[1].status == TaskResultStatus.FAILED


@both
@pytest.mark.parametrize("database", ["asia", "", "eu@eu", "EU", "eu\n", "\0"])
def test_id_of_an_unknown_database_is_not_found(database):
    enqueue_in_both()
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(f"1@{database}")


@both_committing
def test_worker_announces_results_by_the_ids_of_their_callers():
    heard = []

    def hear(sender, task_result, **kwargs):
        heard.append(task_result.id)

    received = [signals.task_started, signals.task_finished]
    for signal in received:
        signal.connect(hear)
    try:
        ids = enqueue_in_both()
        drain(database="eu")
        drain()
    finally:
        for signal in received:
            signal.disconnect(hear)
    assert sorted(heard) == sorted([*ids, *ids])
