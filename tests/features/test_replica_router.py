"""A router that reads from a replica: features write where it says."""

from pgjobs import enqueue
from pgjobs.models import Schedule
from tests.databases.test_replica_router import (
    ROUTED,
    as_read,
    both,
    replica,  # noqa: F401
)
from tests.operators import make_job
from tests.tasks import noop


@ROUTED
@both
def test_job_that_was_read_from_the_replica_may_come_before_another():
    first = as_read(make_job("READY"))
    assert enqueue(noop.using(after=first)).status == "WAITING"


@ROUTED
@both
def test_schedules_are_changed_where_the_router_writes():
    schedule = Schedule(name="tidy", task="tests.noop", cron="0 3 * * *")
    schedule.save(using="default")
    stored = as_read(schedule)
    assert stored.pause()
    assert Schedule.objects.filter(pk=stored.pk).resume() == 1
