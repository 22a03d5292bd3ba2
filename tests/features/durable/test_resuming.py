"""A claim takes what its job waits for, if the worker runs the code that asked."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from pgjobs import publish
from pgjobs.features.durable import queue
from pgjobs.features.durable.declare import Answer
from pgjobs.features.durable.ways import answer_way, event_way
from pgjobs.models import Job, Step, Wait, WaitNote, Worker
from pgjobs.queue.claiming import ClaimedJob
from pgjobs.queue.recording import Unsuccessful
from tests.actors import Hand, execute, session
from tests.features.durable import bodies
from tests.features.durable.bodies import enqueued
from tests.processes import running_worker, shared_queue, wait_for, wait_for_status
from tests.support.declared import store_definitions

pytestmark = shared_queue
TAKEN = {"go": '"yes"'}


@pytest.fixture(autouse=True)
def definitions():
    store_definitions()


def event(aggregate_id: str | None = None) -> dict[str, Any]:
    return event_way("order.paid", aggregate_id, bodies.EVENTS).as_json(str)


def question(type: Any = str, label: str | None = None) -> dict[str, Any]:
    return answer_way(Answer(type), label).as_json(str)


def suspend(hand: Hand, job: ClaimedJob, *ways: dict[str, Any]) -> None:
    stores = {
        "name": "go",
        "seconds": 3_600,
        "waiting_for": ways[0]["kind"],
        "ways": ways,
    }
    recorded = hand.record(suspended(job, stores))
    assert [each.status for each in recorded] == ["WAITING"]


def suspended(job: ClaimedJob, stores: dict[str, Any]) -> Unsuccessful:
    return Unsuccessful(
        job.id, job.lease_token, "SUSPEND", "", statement="suspend", stores=stores
    )


def waiting(hand: Hand, *ways: dict[str, Any]) -> Job:
    """Return a job that waits for one of these ways, which the worker has asked for."""
    job = bodies.plain.enqueue()
    suspend(hand, hand.claim_one(), *ways)
    return job


def brought(claimed: ClaimedJob) -> Any:
    assert claimed.resumed is not None
    return json.loads(claimed.resumed)


def test_jobs_that_are_suspended_together_wait_each_for_its_own():
    hand = Hand()
    jobs = [bodies.plain.enqueue() for _ in range(2)]
    ways = [[question()], [question(label="yes"), {**event("5"), "label": "paid"}]]
    outcomes = []
    for number, claimed in enumerate(hand.claim(2)):
        stores = {
            "name": f"go {number}",
            "seconds": 3_600 * (1 + number),
            "waiting_for": "event",
            "ways": ways[number],
        }
        outcomes.append(suspended(claimed, stores))
    hand.record(*outcomes)
    waits = Wait.objects.order_by("job_id", "label")
    assert [(each.job_id, each.name, each.label, each.kind) for each in waits] == [
        (jobs[0].pk, "go 0", "", "answer"),
        (jobs[1].pk, "go 1", "paid", "event"),
        (jobs[1].pk, "go 1", "yes", "answer"),
    ]
    first, *others = (each.deadline for each in waits)
    assert timedelta(minutes=59) < others[0] - first < timedelta(minutes=61)
    notes = WaitNote.objects.order_by("job_id").values_list("job_id", flat=True)
    assert list(notes) == [job.pk for job in jobs]


def test_claim_of_the_worker_that_asked_takes_an_answer_and_marks_the_step():
    hand = Hand()
    job = waiting(hand, question())
    assert job.answer("go", "yes")
    claimed = hand.claim_one()
    assert brought(claimed)["steps"] == TAKEN
    step = Step.objects.get(job=job)
    assert (step.return_value, step.attempt) == ("yes", 2)
    assert Wait.objects.get().ended_at
    assert not WaitNote.objects.exists()
    how = ("default", job.pk, claimed.lease_token, "go", [question()], None, True)
    assert queue.take_wait(*how).state == "done"


def test_claim_takes_an_event_and_brings_it_as_a_query_would_read_it(settings):
    hand = Hand()
    job = waiting(hand, event("5"))
    paid = publish("order.paid", {"euros": 7.5}, aggregate_id="5", correlation_id="c")
    claimed = hand.claim_one()
    assert brought(claimed)["steps"] == {"go": str(paid.pk)}
    assert Wait.objects.get().event_id == paid.pk
    again = event_way("order.paid", "5", bodies.EVENTS)
    for settings.USE_TZ in (True, False):
        connection.close()  # it has a zone of its own
        running = running_of(claimed)
        with CaptureQueriesContext(connection) as queries:
            came = again.read(running, paid.pk)
        assert not queries.captured_queries
        running.steps.events = {}
        assert came == again.read(running, paid.pk)
        assert came.published_at.utcoffset() == (
            timedelta() if settings.USE_TZ else None
        )
    connection.close()
    assert job.pk == claimed.id


def running_of(claimed: ClaimedJob) -> Any:
    from pgjobs.worker.slots.execution import Execution

    class Host:
        keeps_level = None

    return Execution(claimed, None, Host(), None).running  # type: ignore[arg-type]


def test_claim_takes_the_ends_of_jobs():
    hand = Hand()
    child = bodies.child.enqueue(1)
    ended = hand.claim_one()
    job = bodies.plain.enqueue()
    asks = hand.claim_one()
    suspend(hand, asks, {"kind": "jobs", "label": None, "jobs": [child.pk]})
    hand.succeed(ended, "1")
    hand.claim(0)
    assert queue.wake(execute).number == 1
    claimed = hand.claim_one()
    assert claimed.id == job.pk
    (end,) = json.loads(brought(claimed)["steps"]["go"])
    assert (end["id"], end["status"], end["value"]) == (child.pk, "SUCCESSFUL", 1)


def test_claim_takes_the_first_of_several_and_says_which():
    hand = Hand()
    job = waiting(hand, question(label="yes"), event() | {"label": "paid"})
    publish("order.paid")
    assert not Step.objects.exists()
    claimed = hand.claim_one()
    assert json.loads(brought(claimed)["steps"]["go"])["label"] == "paid"
    assert not job.answer("yes", "late")


def test_worker_of_other_code_takes_nothing_with_its_claim():
    job = waiting(Hand(), question())
    job.answer("go", "yes")
    assert brought(Hand().claim_one()) == {"steps": {}, "events": {}}
    assert Wait.objects.get().ended_at is None


@pytest.mark.parametrize(
    ("first", "second", "takes"),
    [
        ("of today", "of today", True),
        ("of today", "of yesterday", False),
        ("of today", "", False),
        ("", "", False),  # nobody knows
    ],
)
def test_worker_of_the_same_version_takes_what_another_one_has_asked(
    first, second, takes
):
    waiting(Hand(version=first), event())
    publish("order.paid")
    took = brought(Hand(version=second).claim_one())["steps"]
    assert bool(took) is takes


def test_wait_that_a_deploy_has_renamed_gets_the_event_by_its_new_name():
    hand = Hand()
    waiting(hand, event())
    paid = publish("order.paid")
    deployed = Hand()
    claimed = deployed.claim_one()
    how = ("default", claimed.id, claimed.lease_token, "renamed", [event()])
    assert queue.take_wait(*how).stored == str(paid.pk)


def test_way_that_a_deploy_has_added_ends_the_wait_and_its_event_is_taken_once():
    ways = [question(label="yes"), event() | {"label": "paid"}]
    job = waiting(Hand(), ways[0])
    paid = publish("order.paid")
    execute("SELECT pgjobs_let_go_on(ARRAY[%(id)s])", {"id": job.pk})
    claimed = Hand().claim_one()
    how = ("default", job.pk, claimed.lease_token)
    assert queue.take_wait(*how, "go", ways).state == "taken"
    ended = Wait.objects.exclude(ended_at=None).values_list("label", "event_id")
    assert sorted(ended) == [("paid", paid.pk), ("yes", None)]
    assert queue.take_wait(*how, "again", [event()]).state == "open"


@pytest.mark.parametrize(("value", "by"), [('"yes"', "5"), ("5", None)])
def test_answer_of_a_user_and_one_of_another_type_are_left_to_the_code(value, by):
    hand = Hand()
    job = bodies.plain.enqueue()
    asks = hand.claim_one()
    assert queue.answer("default", job.pk, None, "go", value, by)
    suspend(hand, asks, question())
    execute("UPDATE pgjobs_waitnote SET due_at = now()")
    assert queue.wake(execute).number == 1
    claimed = hand.claim_one()
    assert not brought(claimed)["steps"]
    how = ("default", job.pk, claimed.lease_token, "go", [question()])
    assert queue.take_wait(*how).state == "offered"


def test_time_that_is_over_is_left_to_the_code():
    hand = Hand()
    waiting(hand, question())
    execute("UPDATE pgjobs_wait SET deadline = now()")
    execute("UPDATE pgjobs_waitnote SET due_at = now()")
    assert queue.wake(execute).number == 1
    assert not brought(hand.claim_one())["steps"]


def test_claim_leaves_a_wait_that_an_answer_holds():
    hand = Hand()
    ways = [question(label="yes"), event() | {"label": "paid"}]
    job = waiting(hand, *ways)
    publish("order.paid")
    with session() as people:
        people.begin()
        answered = "SELECT pgjobs_answer(%(id)s, 'yes', '\"1\"')"
        assert people.execute(answered, {"id": job.pk}) == [(True,)]
        claimed = hand.claim_one()
        assert not brought(claimed)["steps"]
        people.commit()
    how = ("default", job.pk, claimed.lease_token, "go", ways)
    assert json.loads(queue.take_wait(*how).stored)["label"] == "yes"


def test_claim_leaves_a_job_that_has_open_waits_of_two_names():
    hand = Hand()
    job = waiting(hand, event())
    other = {"name": "of old code", "kind": "answer", "worker_id": hand.id}
    deadline = Wait.objects.get().deadline
    Wait.objects.create(job=job, life=1, deadline=deadline, **other)
    publish("order.paid")
    assert not brought(hand.claim_one())["steps"]


def test_claim_of_a_dead_worker_has_taken_and_the_next_one_takes_nothing_else():
    hand = Hand()
    job = waiting(hand, event())
    first, _ = publish("order.paid"), publish("order.paid")
    assert brought(hand.claim_one())["steps"] == {"go": str(first.pk)}
    Worker.objects.filter(pk=hand.id).delete()
    other = Hand()
    other.rescue()
    claimed = other.claim_one()
    assert (claimed.id, claimed.attempt, claimed.crashes) == (job.pk, 3, 1)
    assert brought(claimed)["steps"] == {"go": str(first.pk)}


def test_claim_that_is_rolled_back_has_taken_nothing():
    hand = Hand()
    job = waiting(hand, event())
    publish("order.paid")
    with transaction.atomic():
        hand.claim_one()
        transaction.set_rollback(True)
    assert not Step.objects.exists()
    assert brought(hand.claim_one())["steps"].keys() == {"go"}
    assert job.pk


def test_large_results_come_with_a_query_of_the_job_and_not_with_the_claim():
    hand = Hand()
    job = waiting(hand, question())
    execute(
        "INSERT INTO pgjobs_step"
        " (job_id, life, name, return_value, attempt, finished_at)"
        " SELECT %(id)s, 1, part, to_jsonb(string_agg(md5(part || n), '')), 1, now()"
        " FROM generate_series(1, 1500) AS n, unnest('{a,b}'::text[]) AS part"
        " GROUP BY part",
        {"id": job.pk},
    )
    job.answer("go", "yes")
    assert hand.claim_one().resumed is None
    assert Step.objects.filter(job=job, name="go").exists()


def test_job_that_does_not_go_on_brings_nothing():
    hand = Hand()
    bodies.plain.enqueue()
    claimed = hand.claim_one()
    assert claimed.resumed is None
    hand.set_back(claimed, "RETRY")
    assert hand.claim_one().resumed is None


def test_job_that_goes_on_asks_the_database_nothing_until_its_next_line():
    def body(job):
        with CaptureQueriesContext(connection) as queries:
            answer = job.wait_for("question", str)
            paid = job.wait_for_event("order.paid")
        return [answer, paid.payload, len(queries)]

    job = enqueued(body)
    with running_worker():
        wait_for_status(job, "WAITING")
        assert job.answer("question", "yes")
        wait_for(lambda: Wait.objects.filter(name="order.paid").exists())
        wait_for_status(job, "WAITING")
        publish("order.paid", {"euros": 7})
        wait_for_status(job, "SUCCESSFUL")
    assert job.return_value == ["yes", {"euros": 7}, 0]
