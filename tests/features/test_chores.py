"""What workers do for features: as any chore, beside other workers, after a fault."""

from collections.abc import Callable
from math import inf

import pytest
from django.utils import timezone

from pgjobs import enqueue
from pgjobs.models import Delivery, Event, Job, Schedule, Subscription
from pgjobs.worker.upkeep.chores import listed, questions
from tests.actors import hours
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)
from tests.support.broken import broken
from tests.tasks import noop
from tests.worker.test_maintenance import check_that_it_is_done, loop  # noqa: F401
from tests.worker.test_survey import SLOW, beat, living

pytestmark = shared_queue


def leave_an_event_for_a_late_handler() -> Callable[[], bool]:
    Event.objects.create(name="x", payload={}, handlers=0)
    Subscription.objects.create(task="tests.echo", event="x")
    return Delivery.objects.exists


def leave_a_schedule_due() -> Callable[[], bool]:
    made = Schedule(name="s", task="tests.noop", every=hours(1))
    made.plan_again(timezone.now())
    made.next_run_at = timezone.now() - hours(1)
    made.save()
    return Job.objects.filter(tick__schedule=made).exists


@pytest.mark.usefixtures("no_schedules", "no_subscriptions")
@pytest.mark.parametrize(
    "leave", [leave_an_event_for_a_late_handler, leave_a_schedule_due]
)
def test_chore_is_found_and_done_though_there_was_none_before(loop, leave):  # noqa: F811
    check_that_it_is_done(loop, leave)


def test_worker_that_drains_the_queue_does_all_chores_by_itself(settings):
    settings.PGJOBS = SLOW
    living("leader", 300)
    leave_a_schedule_due()
    drain()
    assert Job.objects.get().status == "SUCCESSFUL"


def test_worker_whose_chore_was_rolled_back_goes_on_to_claim_by_queue():
    def runs() -> None:
        job = enqueue(noop.using(process_units=2))
        wait_for_status(job, "SUCCESSFUL")

    with running_worker(units=3) as worker:
        runs()
        leave_a_schedule_due()
        with broken("fire") as failures:
            worker.upkeep["schedules"].expect()
            worker.bell.ring()
            wait_for(lambda: failures["fire"], "the transaction is rolled back")
            runs()
        runs()


def test_worker_beside_one_that_leads_asks_and_does_nothing_for_features(settings):
    settings.PGJOBS = SLOW
    living("leader", 300)
    with running_worker(queues=("none",), poll=600) as worker:
        beat(worker)
        for name in ("schedules", "held_locks"):
            assert worker.upkeep[name].next_event == inf, name


def test_each_chore_has_a_name_of_its_own():
    names = [each.name for each in listed()]
    assert len(set(names)) == len(names)
    assert "schedules" in names
    of_core = {"admit", "rescue", "expire"}
    of_features = {"deliver_late", "schedules", "wake", "end_lives", "overrides"}
    assert set(questions()) == of_core | of_features
