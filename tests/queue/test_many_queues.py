"""Keys that jobs of thousands of queues share, beside queues that are paused."""

import pytest

from pgjobs import enqueue
from pgjobs.models import Job, Queue
from pgjobs.queue import admitting
from tests.actors import Hand, admit, execute, statuses
from tests.processes import shared_queue
from tests.tasks import noop

pytestmark = shared_queue

MANY = 1_100
INSERT = """
INSERT INTO pgjobs_job (task, queue_name, keys)
SELECT 'tests.noop', 'queue-' || number, %(keys)s::jsonb
FROM generate_series(1, %(many)s) AS number
"""
PAUSE = """
INSERT INTO pgjobs_queue (name, paused_at, note)
SELECT 'queue-' || number, now(), '' FROM generate_series(1, %(many)s) AS number
"""


@pytest.fixture(autouse=True)
def hand():
    return Hand()


def limited(**options):
    return noop.using(limit_key="api", max_running=1, **options)


def insert_in_many_queues(keys: str) -> None:
    execute(INSERT, {"keys": keys, "many": MANY})


def pause_all() -> None:
    execute(PAUSE, {"many": MANY})


def test_job_behind_a_thousand_paused_queues_of_its_key_is_admitted(hand):
    enqueue(limited())
    job = hand.claim_one()
    insert_in_many_queues('{"limit_key": "api", "max_running": 1}')
    admit()
    assert Job.objects.filter(line="limit api").count() == MANY
    last = enqueue(limited(queue_name="zz"))
    pause_all()
    hand.succeed(job)
    admit(sweeps=False)
    last.refresh_from_db()
    assert last.status == "READY"


def test_job_of_high_priority_comes_first_whatever_its_queue_is_called(hand):
    enqueue(limited())
    job = hand.claim_one()
    insert_in_many_queues('{"limit_key": "api", "max_running": 1}')
    last = enqueue(limited(queue_name="zz", priority=1))
    admit()
    hand.succeed(job)
    admit(sweeps=False)
    last.refresh_from_db()
    assert last.status == "READY"


def test_jobs_of_paused_queues_are_in_no_ones_way():
    insert_in_many_queues('{"lock": "door", "is_ordered": false}')
    pause_all()
    admit()
    assert not Job.objects.filter(line="arrived").exists()
    enqueue(noop.using(lock="door", lock_mode="mutex", queue_name="zz"))
    assert admitting.admit(execute).admitted == 1


def test_jobs_that_were_set_aside_come_back_in_their_order():
    insert_in_many_queues('{"limit_key": "api", "max_running": 2}')
    pause_all()
    admit()
    Queue.objects.filter(name__in=["queue-7", "queue-8", "queue-9"]).resume()
    admit()
    ready = Job.objects.ready().order_by("pk").values_list("queue_name", flat=True)
    assert list(ready) == ["queue-7", "queue-8"]


def test_job_that_was_set_aside_and_moved_to_a_served_queue_is_admitted():
    Queue.objects.create(name="slow").pause()
    enqueue(noop.using(lock="door", queue_name="slow"))
    enqueue(noop.using(lock="gate", queue_name="slow"))
    assert statuses() == ["WAITING", "WAITING"]
    Job.objects.filter(pk=Job.objects.latest("pk").pk).update(queue_name="fast")
    assert statuses() == ["WAITING", "READY"]


def test_job_of_a_queue_before_those_that_were_looked_at_is_not_forgotten():
    """A hundred queues are looked at at a time."""
    execute(INSERT, {"keys": '{"lock": "door"}', "many": 100})
    position = admitting.admit(execute).position
    enqueue(noop.using(lock="gate", queue_name="a"))
    admission = admitting.admit(execute, position)
    assert admission.admitted == 1 or admission.has_more
