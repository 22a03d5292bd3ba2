"""Events take along what jobs do, and hand it to the jobs that they lead to."""

import json

import pytest

from pgjobs import enqueue, publish, subscribe, task
from pgjobs.models import Event, Job
from tests.processes import drain, shared_queue
from tests.sql import psql, refused
from tests.support.declared import store_subscriptions
from tests.telemetry.test_meta import use, within  # noqa: F401

pytestmark = [shared_queue, pytest.mark.usefixtures("no_subscriptions")]


def tell():
    publish("meta.seen")


def hear(): ...


def test_event_inherits_the_meta_of_the_job_that_publishes_it(use):  # noqa: F811
    use("tenant")
    job = within(lambda: enqueue(task(name="tests.tell_event")(tell)))
    drain()
    assert Event.objects.get().meta == {
        "tenant": "acme",
        "parent_id": job.pk,
        "correlation_id": f"job-{job.pk}",
    }


def test_jobs_of_an_event_inherit_its_meta_and_correlation_id(use):  # noqa: F811
    subscribe("meta.told")(task(name="tests.hear_meta")(hear))
    store_subscriptions("default")
    use("tenant")
    within(lambda: publish("meta.told", correlation_id="c1"))
    job = Job.objects.get()
    assert job.meta == {"tenant": "acme", "correlation_id": "c1"}


def test_sql_publishers_give_meta():
    psql("""SELECT pgjobs_publish('meta.sql', meta => '{"tenant": "acme"}')""")
    assert Event.objects.get().meta == {"tenant": "acme"}


@pytest.mark.parametrize("given", ["[]", '"a"', json.dumps({"a": "x" * 9_000})])
def test_meta_of_sql_publishers_is_checked(given):
    with refused("22023", "meta must be a JSON object", column="meta"):
        psql(f"SELECT pgjobs_publish('a.b', meta => '{given}')")
