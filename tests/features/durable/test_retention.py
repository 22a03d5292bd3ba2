"""What stays for jobs that wait, and what is cleared away."""

import pytest

from pgjobs import publish
from pgjobs.features.events import queue as events
from pgjobs.models import Event
from tests.actors import execute
from tests.features.durable.bodies import done, goes_on
from tests.processes import shared_queue
from tests.support.declared import store_definitions

pytestmark = shared_queue
DAY = 86_400.0


def takes(job):
    return job.wait_for_event("order.paid", aggregate_id="5").payload


def prune() -> None:
    execute("UPDATE pgjobs_event SET published_at = now() - interval '31 days'")
    events.prune(execute, 30 * DAY)


@pytest.fixture(autouse=True)
def definitions():
    store_definitions()


def test_event_that_a_job_may_still_take_is_kept_and_one_of_another_is_not():
    done(takes)
    kept = publish("order.paid", aggregate_id="5")
    publish("order.paid", aggregate_id="6")
    prune()
    assert list(Event.objects.all()) == [kept]


def test_event_that_was_taken_is_kept_as_long_as_the_job():
    job = done(takes)
    publish("order.paid", {"euros": 7}, aggregate_id="5")
    assert goes_on(job).status == "SUCCESSFUL"
    prune()
    assert Event.objects.count() == 1
    job.delete()
    prune()
    assert not Event.objects.exists()


def test_event_that_nothing_waits_for_is_pruned():
    publish("order.paid", aggregate_id="5")
    prune()
    assert not Event.objects.exists()


def test_cancelled_job_keeps_no_event():
    job = done(takes)
    publish("order.paid", aggregate_id="5")
    job.cancel()
    prune()
    assert not Event.objects.exists()


# Of jobs that have not asked yet


def asks_later(job):
    job.sleep("nap", DAY * 90)
    return takes(job)


def enqueued_long_ago(job) -> None:
    execute(
        "UPDATE pgjobs_job SET enqueued_at = now() - interval '60 days', keys = keys"
        f" - 'enqueued_in' WHERE id = {job.pk}"  # its time decides
    )


def test_event_for_which_a_job_may_ask_later_is_kept():
    job = done(asks_later)
    enqueued_long_ago(job)
    publish("order.paid", {"euros": 7}, aggregate_id="5")
    prune()
    job.run_now()
    assert goes_on(job).return_value == {"euros": 7}


def test_event_that_was_published_long_before_is_pruned():
    done(asks_later)
    publish("order.paid", aggregate_id="5")
    prune()
    assert not Event.objects.exists()


def test_event_that_no_unfinished_job_declares_is_pruned():
    job = done(asks_later)
    enqueued_long_ago(job)
    publish("order.paid", aggregate_id="5")
    execute('UPDATE pgjobs_job SET keys = keys || \'{"waits_for": ["export.done"]}\'')
    prune()
    assert not Event.objects.exists()
    publish("order.paid", aggregate_id="5")
    execute('UPDATE pgjobs_job SET keys = keys || \'{"waits_for": ["order.*"]}\'')
    job.cancel()
    prune()
    assert not Event.objects.exists()


def test_each_list_of_names_is_asked():
    for names in ('["a"]', '["order.*"]', '["b", "c"]', '["d"]'):
        keys = f'{{"waits_for": {names}}}'
        execute(f"INSERT INTO pgjobs_job (task, keys) VALUES ('none', '{keys}')")
    now = "clock_timestamp()"
    expected = {"a": True, "order.x": True, "c": True, "d": True, "e": False}
    for name, may in expected.items():
        assert execute(f"SELECT pgjobs_may_be_taken('{name}', {now})") == [(may,)]


def test_job_that_waits_keeps_only_what_fits_its_wait():
    job = done(lambda job: job.wait_for("question", bool) and takes(job))
    enqueued_long_ago(job)
    publish("order.paid", aggregate_id="5")
    prune()
    assert not Event.objects.exists()
