"""A router that reads from a replica: acts go to the database that takes them."""

import pytest
from django.db import connections
from django.test import override_settings

from pgjobs.base.database_choice import database_to_change
from pgjobs.base.queue_database import database_of_acts
from pgjobs.conf import settings
from pgjobs.models import Job, Queue
from pgjobs.queue.waiting import database_of
from tests.operators import make_job
from tests.support.known_alias import known_alias

ROUTED = override_settings(
    DATABASE_ROUTERS=["tests.support.routers.ReplicaRouter"],
    PGJOBS={"DATABASES": ["default"]},
)


both = pytest.mark.django_db(transaction=True, databases=["default", "replica"])


@pytest.fixture(scope="module", autouse=True)
def replica(django_db_setup):
    """Let the project know another alias for the same rows."""
    with known_alias("replica", dict(connections["default"].settings_dict)):
        yield


def as_read(row):
    """Return a row as the router has read it."""
    row._state.db = "replica"
    return row


@ROUTED
@both
def test_act_on_a_job_goes_where_the_router_writes():
    job = as_read(make_job("FAILED"))
    assert job.retry()
    assert job._state.db == "default"
    assert as_read(job).cancel()


@ROUTED
@both
def test_change_of_a_set_goes_where_the_router_writes():
    job = make_job("FAILED")
    jobs = Job.objects.filter(pk=job.pk)
    assert jobs.db == "replica"
    assert jobs.retry().changed == 1
    assert jobs.update(priority=3) == 1
    assert jobs.delete()[0] == 1


@ROUTED
@both
def test_queues_are_changed_where_the_router_writes():
    queue = as_read(Queue.objects.create(name="mail"))
    assert queue.pause()
    assert Queue.objects.filter(name="mail").resume() == 1


@ROUTED
@both
def test_job_that_was_read_from_a_replica_is_waited_for_where_it_runs():
    job = as_read(make_job("SUCCESSFUL", return_value=42))
    assert database_of(job) == "default"
    assert job.wait(timeout=10) == 42


def test_row_of_a_queue_is_changed_where_it_is():
    job = Job(pk=1)
    job._state.db = "eu"
    with override_settings(PGJOBS={"DATABASES": ["default", "eu"]}):
        assert database_of_acts(job) == "eu"


@ROUTED
def test_page_about_a_replica_still_refuses_every_act():
    with settings.using_database_here("replica"):
        assert database_to_change("replica") == "replica"
