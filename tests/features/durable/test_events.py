"""Waits for events: none that counts is lost, and none is taken twice by one life."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import transaction
from psycopg.errors import SerializationFailure

from pgjobs import enqueue, publish
from pgjobs.features.durable import queue
from pgjobs.features.durable.chore import FindAwaited
from pgjobs.features.durable.declare import Answer
from pgjobs.models import AwaitedEvent, Event, Job, TaskDefinition, Wait, WaitNote
from tests.actors import WAITING_SESSIONS, execute, in_thread, session
from tests.features.durable import bodies
from tests.features.durable.bodies import done, enqueued, goes_on
from tests.features.durable.test_answers import let_time_pass
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)
from tests.support.declared import store_definitions

pytestmark = shared_queue
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def definitions():
    store_definitions()


def takes(job):
    event = job.wait_for_event("order.paid", aggregate_id="5")
    return event and [event.name, event.payload, event.aggregate_id]


PAID = ["order.paid", {"euros": 7}, "5"]


def pay(aggregate_id: str = "5") -> Event:
    return publish("order.paid", {"euros": 7}, aggregate_id=aggregate_id)


def test_job_waits_for_an_event_and_gets_it():
    job = done(takes)
    assert (job.status, job.waiting_for) == ("WAITING", "event")
    pay()
    goes_on(job)
    assert (job.status, job.return_value) == ("SUCCESSFUL", PAID)
    assert not WaitNote.objects.exists()


def test_event_published_alone_wakes_its_job_with_its_commit():
    job = done(takes)
    other = done(lambda job: job.wait_for_event("order.paid", aggregate_id="6"))
    pay()
    job.refresh_from_db()
    other.refresh_from_db()
    assert (job.status, other.status) == ("READY", "WAITING")


def test_publisher_holds_no_job_while_its_transaction_lasts():
    job = done(takes)
    with transaction.atomic():
        pay()
        free = "SELECT id FROM pgjobs_job WHERE id = %(id)s FOR UPDATE SKIP LOCKED"
        with session() as outside:
            assert outside.execute(free, {"id": job.pk}) == [(job.pk,)]
    job.refresh_from_db()
    assert job.status == "WAITING"
    goes_on(job)
    assert job.return_value == PAID


def test_event_of_another_aggregate_or_name_wakes_nobody():
    job = done(takes)
    pay("6")
    publish("order.sent", aggregate_id="5")
    publish("order.paid")
    goes_on(job)
    assert (job.status, job.attempts) == ("WAITING", 1)


def test_event_that_comes_before_the_task_asks_counts():
    job = enqueued(takes)
    pay()
    goes_on(job)
    assert (job.return_value, job.attempts) == (PAID, 2)


def test_events_that_came_early_are_taken_in_one_stretch():
    def takes_all(job):
        return [
            job.wait_for_event("order.*", name=f"event {number}").aggregate_id
            for number in range(3)
        ]

    job = enqueued(takes_all)
    for number in range(3):
        pay(str(number))
    assert goes_on(job).return_value == ["0", "1", "2"]
    assert job.attempts == 2


def test_event_before_the_job_was_enqueued_does_not_count():
    pay()
    assert done(takes).status == "WAITING"


def test_event_in_the_transaction_of_the_enqueue_counts():
    with transaction.atomic():
        with transaction.atomic():  # a savepoint has an id of its own
            pay()
        with transaction.atomic():
            job = enqueued(takes)
    assert goes_on(job).return_value == PAID


def test_event_whose_transaction_began_before_the_enqueue_and_commits_later_counts():
    with session() as outside:
        outside.begin()
        outside.execute("SAVEPOINT inside")
        outside.execute("""SELECT pgjobs_publish('order.paid', '{"euros": 7}', '5')""")
        outside.execute("RELEASE SAVEPOINT inside")
        job = done(takes)
        assert job.status == "WAITING"
        outside.commit()
    assert goes_on(job).return_value == PAID


@pytest.mark.parametrize("first", ["publish", "suspend"])
def test_publish_and_suspend_miss_each_other_in_no_order(first):
    """The event is published while the job asks, and neither sees the other."""
    job = enqueued(takes)
    with session() as outside:
        outside.begin()
        outside.execute("""SELECT pgjobs_publish('order.paid', '{"euros": 7}', '5')""")
        if first == "publish":
            outside.commit()
        goes_on(job)
        if first == "suspend":
            assert job.status == "WAITING"
            outside.commit()
    assert goes_on(job).return_value == PAID


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_publisher_of_any_isolation_wakes(level):
    job = done(takes)
    with session() as outside:
        outside.execute(f"BEGIN ISOLATION LEVEL {level}")
        outside.execute("SELECT 1")
        outside.execute("""SELECT pgjobs_publish('order.paid', '{"euros": 7}', '5')""")
        outside.commit()
    assert goes_on(job).return_value == PAID


def test_event_that_is_rolled_back_changes_nothing():
    job = done(takes)
    with session() as outside:
        outside.begin()
        outside.execute("SELECT pgjobs_publish('order.paid', '{}', '5')")
        outside.rollback()
    assert goes_on(job).status == "WAITING"


def test_two_waits_of_one_job_take_two_events_in_their_order():
    def takes_two(job):
        events = [
            job.wait_for_event("order.*", name=f"event {number}") for number in (1, 2)
        ]
        return [event.aggregate_id for event in events]

    job = done(takes_two)
    pay("1")
    goes_on(job)
    assert job.status == "WAITING"
    pay("2")
    assert goes_on(job).return_value == ["1", "2"]


def test_each_waiting_job_takes_the_event():
    jobs = [done(takes), done(takes)]
    pay()
    assert [goes_on(job).return_value for job in jobs] == [PAID, PAID]


def test_new_life_takes_what_was_published_since_the_enqueue():
    job = done(takes)
    pay()
    goes_on(job)
    job.retry()
    assert goes_on(job).return_value == PAID
    assert job.life == 2


def test_time_that_is_over_gives_none():
    job = done(takes)
    let_time_pass(job)
    assert goes_on(job).return_value is None
    pay()
    assert goes_on(job).attempts == 2


def test_event_that_the_task_does_not_declare_fails_with_the_cure():
    job = done(lambda job: job.wait_for_event("invoice.sent"))
    assert job.status == "FAILED"
    assert "@task(waits_for=('invoice.sent',))" in job.reason


def test_wait_that_a_deploy_has_changed_wakes_the_job_for_nothing_no_more():
    job = done(takes)
    bodies.body = lambda job: job.wait_for_event("order.paid", aggregate_id="6").id
    pay("5")
    goes_on(job)
    assert (job.status, job.attempts) == ("WAITING", 2)
    assert [wait.aggregate_id for wait in Wait.objects.all()] == ["6"]
    bodies.body = lambda job: job.wait_for("question", bool)
    pay("6")
    goes_on(job)
    assert (job.status, job.waiting_for) == ("WAITING", "answer")
    assert Wait.objects.get(ended_at=None).name == "question"


def test_wait_of_an_old_life_wakes_the_new_one_no_more():
    job = done(takes)
    job.cancel()
    bodies.body = lambda job: job.wait_for("question", bool)
    job.retry()
    goes_on(job)
    pay()
    assert (goes_on(job).status, job.attempts) == ("WAITING", 1)


def test_event_that_was_published_before_its_task_was_known_is_found():
    """As in a deploy: the publisher saw no definition that waits for it."""
    job = enqueued(takes)
    TaskDefinition.objects.all().delete()
    pay()
    store_definitions()
    assert goes_on(job).status == "WAITING"
    assert queue.find_awaited(execute, 60).number == 1
    assert queue.find_awaited(execute, 60).number == 0
    assert goes_on(job).return_value == PAID


def test_event_of_long_before_any_worker_knew_the_task_is_found(monkeypatch):
    monkeypatch.setattr(queue, "MOST_FOUND", 2)
    job = enqueued(takes)
    TaskDefinition.objects.all().delete()
    pay()
    for _ in range(40):  # more than one look sees
        publish("nobody.waits")
    execute("UPDATE pgjobs_job SET enqueued_at = enqueued_at - interval '2 days'")
    execute("UPDATE pgjobs_event SET published_at = published_at - interval '1 day'")
    store_definitions()
    assert goes_on(job).status == "WAITING"
    chore, looks = FindAwaited(), SimpleNamespace(execute=execute)
    chore.run(looks)
    while chore.before is not None:
        chore.run(looks)
    assert goes_on(job).return_value == PAID
    chore.run(looks)
    assert chore.before is None  # once is enough


def test_events_that_no_task_waits_for_leave_nothing():
    publish("nobody.waits")
    assert not AwaitedEvent.objects.exists()
    assert not WaitNote.objects.exists()


def test_event_goes_with_its_awaited_row():
    pay().delete()
    assert not AwaitedEvent.objects.exists()


def test_job_of_another_cluster_goes_by_time():
    """As after a restore: the ids of transactions have begun anew."""
    job = enqueued(takes)
    execute(
        "UPDATE pgjobs_job SET keys = jsonb_set(keys, '{enqueued_in,cluster}', '1')"
    )
    pay()
    assert goes_on(job).return_value == PAID


def test_job_by_plain_insert_goes_by_time():
    pay()
    bodies.body = takes
    execute("INSERT INTO pgjobs_job (task) VALUES ('durable.plain')")
    job = Job.objects.get()
    assert goes_on(job).status == "WAITING"
    pay()
    assert goes_on(job).return_value == PAID


def test_job_by_sql_knows_its_snapshot():
    bodies.body = takes
    execute("SELECT pgjobs_enqueue('durable.plain')")
    assert "enqueued_in" in Job.objects.get().keys


def test_worker_that_listens_goes_on_soon_after_an_event():
    with running_worker(slots=1):
        job = enqueued(takes)
        wait_for_status(job, "WAITING")
        pay()
        wait_for_status(job, "SUCCESSFUL")


# The first of several


def first_of(job):
    label, came = job.wait_for_first(
        {
            "paid": ("order.paid", 5),
            "done": "export.done",
            "asked": Answer(bool, title="Go on?"),
        }
    )
    return [label, getattr(came, "name", came)]


@pytest.mark.parametrize(
    ("come", "got"),
    [
        (lambda job: pay(), ["paid", "order.paid"]),
        (lambda job: publish("export.done"), ["done", "export.done"]),
        (lambda job: job.answer("asked", True), ["asked", True]),
        (let_time_pass, [None, None]),
    ],
)
def test_first_of_several_ends_the_wait(come, got):
    job = done(first_of)
    assert (job.status, job.waiting_for) == ("WAITING", "event")
    assert Wait.objects.get(label="asked").name == "paid,done,asked"
    come(job)
    assert goes_on(job).return_value == got
    assert not Wait.objects.filter(ended_at=None).exists()
    assert job.answer("asked", True) is False


def test_wait_for_first_of_answers_waits_for_an_answer():
    job = done(lambda job: job.wait_for_first({"a": Answer(bool), "b": Answer(str)}))
    assert job.waiting_for == "answer"
    job.answer("b", "yes")
    assert goes_on(job).return_value == ["b", "yes"]


def yes_or_no(job):
    return job.wait_for_first({"yes": Answer(bool), "no": Answer(bool)})[0]


def rounds(job, names: str, labels: str) -> list[str | None]:
    """Wait for the first of two answers, twice."""
    taken = []
    for number in range(2):
        ways = {
            labels.format("go", number): Answer(bool),
            labels.format("stop", number): Answer(bool),
        }
        name = names.format(number) if names else None
        taken.append(job.wait_for_first(ways, name=name)[0])
    return taken


@pytest.mark.parametrize(
    ("names", "labels", "cure"),
    [
        ("", "{}", """ f'go,stop-{number}'."""),
        ("round-{}", "{}", """ f'go-{number}'."""),
    ],
)
def test_wait_for_the_first_that_is_asked_again_in_a_loop_is_refused_with_the_cure(
    names, labels, cure
):
    job = done(lambda job: rounds(job, names, labels))
    job.answer("go", True)
    assert goes_on(job).status == "FAILED"
    assert job.reason.endswith(f"in a loop with the number of the round:{cure}")


@pytest.mark.parametrize("names", ["", "round-{}"])
def test_wait_for_the_first_in_a_loop_has_labels_with_the_number_of_the_round(names):
    job = done(lambda job: rounds(job, names, "{}-{}"))
    for label in ("go-0", "stop-1"):
        assert job.answer(label, True)
        goes_on(job)
    assert job.return_value == ["go-0", "stop-1"]


def test_one_answer_counts_to_the_first_of_several():
    job = done(yes_or_no)
    assert [job.answer("no", True), job.answer("yes", True)] == [True, False]
    assert goes_on(job).return_value == "no"


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_second_answer_to_the_first_of_several_waits_for_the_other(level):
    job = done(yes_or_no)
    ask = f"SELECT pgjobs_answer({job.pk}, 'yes', 'true')"
    with session() as first, session() as second:
        first.begin()
        first.execute(f"SELECT pgjobs_answer({job.pk}, 'no', 'true')")
        second.execute(f"BEGIN ISOLATION LEVEL {level}")
        second.execute("SELECT 1 FROM pgjobs_job")  # its snapshot
        with in_thread(second.execute, ask) as later:
            wait_for(lambda: execute(WAITING_SESSIONS)[0][0], "the second one waits")
            first.commit()
        if level == "READ COMMITTED":
            assert later.result() == [(False,)]
        else:
            assert isinstance(later.exception(), SerializationFailure)
    assert goes_on(job).return_value == "no"


def test_answer_that_counts_is_taken_though_an_event_is_older():
    def body(job):
        label, _ = job.wait_for_first({"asked": Answer(bool), "done": "export.done"})
        return [label, job.wait_for_event("export.done").name]

    job = done(body)
    publish("export.done")
    assert job.answer("asked", True)
    assert goes_on(job).return_value == ["asked", "export.done"]


@pytest.mark.parametrize("kept", [False, True])
def test_answer_is_late_where_the_wait_found_something_at_once(kept):
    def body(job):
        job.wait_for_first({"asked": Answer(bool), "other": Answer(bool)})
        job.wait_for("more", bool)

    job = enqueued(body)
    job.answer("other", True)
    goes_on(job)
    if kept:
        job.cancel()
        job.retry(keep_steps=True)
        goes_on(job)
    assert (job.status, job.life) == ("WAITING", 1 + kept)
    assert job.answer("asked", True) is False
    assert job.answer("other", True) is False


def test_oldest_of_several_is_taken():
    job = enqueued(first_of)
    publish("export.done")
    pay()
    assert goes_on(job).return_value == ["done", "export.done"]


def test_answer_comes_too_late_where_the_wait_ended_at_once():
    def first_and_another(job):
        first_of(job)
        job.wait_for("question", bool)

    job = enqueued(first_and_another)
    pay()
    goes_on(job)
    assert job.answer("asked", True) is False


def test_answer_of_an_earlier_wait_cannot_be_asked_again():
    def asks_twice(job):
        for number in range(2):
            job.wait_for_first({"stop": Answer(bool)}, name=f"wait {number}")

    job = done(asks_twice)
    job.answer("stop", True)
    goes_on(job)
    assert job.status == "FAILED"
    assert "Answer 'stop' was asked before" in job.reason


@pytest.mark.parametrize("ways", [{}, {"": "order.paid"}, {"x": 5}, ["order.paid"]])
def test_bad_ways_fail_the_job(ways):
    assert done(lambda job: job.wait_for_first(ways)).status == "FAILED"


@pytest.mark.parametrize("way", [5, None, bool, ("order.paid",), ("order.paid", 1, 2)])
def test_way_that_is_none_fails_the_job_with_the_cure(way):
    job = done(lambda job: job.wait_for_first({"it": way}))
    assert (job.status, job.attempts) == ("FAILED", 1)
    assert "'it' must be the name of an event, (event, aggregate_id)" in job.reason


@pytest.mark.parametrize("aggregate_id", ["", "x" * 300, "a\0b"])
def test_bad_aggregate_id_fails_the_job(aggregate_id):
    wait = {"aggregate_id": aggregate_id}
    job = done(lambda job: job.wait_for_event("order.paid", **wait))
    assert (job.status, job.attempts) == ("FAILED", 1)
    assert job.reason.startswith("aggregate_id ")


# Other jobs


def waits_for_all(job):
    ids = job.step("enqueue", lambda: [enqueue(bodies.child, n) for n in (1, 0)])
    ends = job.wait_for_jobs("children", ids)
    return ends and [[end.status, end.value, end.reason] for end in ends]


def test_job_waits_for_others_that_it_enqueued():
    job = done(waits_for_all)
    assert job.status == "SUCCESSFUL"
    assert job.return_value == [
        ["SUCCESSFUL", 1, ""],
        ["FAILED", None, "ZeroDivisionError: integer division or modulo by zero"],
    ]


def test_job_that_waits_for_others_does_not_hold_the_slot():
    job = enqueued(waits_for_all)
    drain(slots=1)
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"


def test_job_that_is_gone_has_an_outcome():
    job = done(lambda job: job.wait_for_jobs("gone", [999_999_999]))
    assert job.return_value == [[999_999_999, "GONE", None, ""]]


def test_time_of_a_wait_for_jobs_ends_and_its_links_go():
    later = bodies.child.using(run_after=HOUR).enqueue(1)
    job = done(lambda job: job.wait_for_jobs("later", [later.pk]), bodies.locked)
    assert (job.status, job.waiting_for) == ("WAITING", "jobs")
    let_time_pass(job)
    goes_on(job)
    assert (job.status, job.return_value) == ("SUCCESSFUL", None)


def test_wait_for_a_job_that_waits_for_this_one_is_refused():
    def circle(job):
        after = bodies.child.using(after=Job.objects.get(pk=job.id)).enqueue(1)
        job.wait_for_jobs("circle", [after])

    job = done(circle)
    assert job.status == "FAILED"
    assert "wait for this job" in job.reason


def test_wait_for_a_job_that_waits_for_this_one_by_way_of_another_is_refused():
    def circle(job):
        after = bodies.child.using(after=Job.objects.get(pk=job.id)).enqueue(1)
        last = bodies.child.using(after=after).enqueue(2)
        job.wait_for_jobs("circle", [bodies.child.enqueue(3), last])

    job = done(circle)
    assert job.status == "FAILED"
    last = Job.objects.order_by("pk")[2]
    assert job.reason.startswith(f"Jobs {last.pk} wait for this job")


def test_wait_for_jobs_ends_by_the_end_of_the_last_one():
    one = bodies.child.using(run_after=HOUR).enqueue(1)
    two = bodies.child.using(run_after=HOUR).enqueue(2)
    job = done(lambda job: job.wait_for_jobs("both", [one, two]))
    one.cancel("not needed")
    assert goes_on(job).status == "WAITING"
    two.run_now()
    goes_on(job)
    assert [end[1] for end in job.return_value] == ["CANCELLED", "SUCCESSFUL"]
