"""What jobstatus says about events to those who monitor them."""

import pytest

from pgjobs import publish
from pgjobs.models import Delivery, Event
from tests.features.operating.test_jobstatus import refused, run
from tests.operators import make_job

pytestmark = pytest.mark.django_db

DEAD = "Remark: 1 event is a dead letter: a task has failed to handle it."


def test_more_dead_letters_or_unhandled_events_than_the_limit_are_a_problem():
    event = publish("tests.watched", {})
    Event.objects.filter(pk=event.pk).update(handlers=1)
    Delivery.objects.create(job=make_job(), event=event, task="tests.noop")
    publish("tests.nobody_handles_this", {})
    assert refused("jobstatus", "--check", "--max-dead", "0").splitlines() == [
        "There are more than 0 dead letters.",
        "There are more than 0 unhandled events.",
        DEAD,
    ]
    assert run("jobstatus", "--check", "--max-dead", "1") == f"No problems.\n{DEAD}\n"
    assert run("jobstatus", "--check") == f"No problems.\n{DEAD}\n"
