"""Jobs that go on as others: what these have, and what waits for them."""

from datetime import timedelta

import pytest

from pgjobs import chain, enqueue, group, publish, signals
from pgjobs.exceptions import InvalidArguments
from pgjobs.models import Batch, Job, Predecessor, Step
from tests.actors import execute
from tests.features.durable import bodies
from tests.features.durable.bodies import goes_on
from tests.processes import drain, shared_queue
from tests.support.declared import store_definitions

pytestmark = shared_queue
DAY = timedelta(days=1)


def up_to(most: int, then=lambda job, number: number):
    """Return a body that goes on with the next number, up to this one."""

    def body(job, number):
        if number < most:
            job.continue_as(number=number + 1)
        return then(job, number)

    return body


def line(body, **options) -> list[Job]:
    """Run a job with this body until nothing is ready; return it and its successors."""
    bodies.body = body
    bodies.numbered.using(**options).enqueue()
    drain()
    return jobs()


def jobs() -> list[Job]:
    return list(Job.objects.filter(task="durable.numbered").order_by("pk"))


@pytest.fixture(autouse=True)
def definitions():
    store_definitions()


def test_job_goes_on_with_new_arguments():
    first, second, third = line(up_to(2))
    assert [job.kwargs["number"] for job in (first, second, third)] == [0, 1, 2]
    assert first.reason == f"It goes on as job {second.pk}."
    assert (third.status, third.return_value) == ("SUCCESSFUL", 2)
    assert not execute("SELECT FROM pgjobs_job WHERE line IS NOT NULL")


def test_successor_has_everything_but_arguments_and_steps():
    bodies.body = up_to(1, lambda job, number: job.sleep("nap", DAY))
    options = {
        "queue_name": "slow",
        "priority": 7,
        "timeout": 60,
        "max_attempts": 5,
        "max_crashes": 4,
        "lock": "door",
        "lock_mode": "mutex",
        "unique": True,
        "on_success": bodies.followed,
        "batch": Batch.objects.create(),
    }
    bodies.numbered.using(**options).enqueue()
    drain()
    first, second = jobs()
    for name in ("queue_name", "priority", "timeout", "max_attempts", "max_crashes"):
        assert getattr(second, name) == getattr(first, name)
    assert second.unique_key == first.unique_key
    assert second.batch_id == options["batch"].pk
    assert second.keys["lock"] == "door"
    assert second.keys["on_success"] == "durable.followed"
    assert (first.batch_id, first.keys.get("on_success")) == (None, None)


def test_successor_has_no_steps():
    def body(job, number):
        job.step("one", int, number)
        return number or job.continue_as(number=5)

    first, second = line(body)
    assert second.return_value == 5
    steps = Step.objects.order_by("job").values_list("job", "return_value")
    assert list(steps) == [(first.pk, 0), (second.pk, 5)]


def test_meta_and_parent_stay():
    bodies.body = up_to(1)
    execute(
        "INSERT INTO pgjobs_job (task, kwargs, meta) "
        """VALUES ('durable.numbered', '{"number": 0}', '{"parent_id": 5}')"""
    )
    drain()
    first, second = jobs()
    assert second.meta == first.meta == {"parent_id": 5}


def test_coroutine_goes_on():
    async def body(job, number):
        if number < 2:
            await job.acontinue_as(number=number + 1)
        return number

    bodies.body = body
    job = bodies.numbered_coroutine.enqueue()
    drain()
    assert job.newest().return_value == 2


def test_wrong_arguments_are_refused():
    def body(job, number):
        with pytest.raises(InvalidArguments):
            job.continue_as(number="many")
        return "refused"

    (job,) = line(body)
    assert job.return_value == "refused"


def test_job_that_was_asked_to_stop_has_no_successor():
    def body(job, number):
        Job.objects.filter(pk=job.id).cancel("enough")
        job.continue_as()

    (job,) = line(body)
    assert (job.status, job.reason) == ("CANCELLED", "enough")
    assert not execute("SELECT FROM pgjobs_job WHERE line IS NOT NULL")


def test_swallowed_call_goes_on_all_the_same():
    def body(job, number):
        if number == 0:
            try:
                job.continue_as(number=1)
            except BaseException:  # noqa: BLE001
                return "swallowed"
        return number

    first, second = line(body)
    assert (first.return_value, second.return_value) == (None, 1)


def inside_transaction(job):
    from django.db import transaction

    with transaction.atomic():
        job.continue_as()


@pytest.mark.parametrize(
    "call",
    [inside_transaction, lambda job: job.step("one", job.continue_as)],
)
def test_call_where_it_cannot_be_is_refused(call):
    (job,) = line(lambda job, number: call(job))
    assert job.status == "FAILED"
    assert "continue_as" in job.reason


def test_atomic_task_is_refused():
    job = bodies.done(lambda job: job.continue_as(), bodies.atomic)
    assert job.status == "FAILED"
    assert "without atomic=True" in job.reason


def test_retry_of_a_job_that_goes_on_changes_nothing():
    first, second = line(up_to(1))
    assert not first.retry()
    assert second.retry()


# What waits


def test_follow_up_comes_once_with_the_last_one():
    *_, last = line(up_to(2), on_success=bodies.followed)
    (followed,) = Job.objects.filter(task="durable.followed")
    assert followed.kwargs == {"job_id": last.pk}


def test_signal_of_the_end_comes_once_with_the_last_one():
    def note(job, **named) -> None:
        ended.append(job.pk)

    ended: list[int] = []
    signals.job_finished.connect(note)
    try:
        *_, last = line(up_to(2))
    finally:
        signals.job_finished.disconnect(note)
    assert ended == [last.pk]


def test_batch_ends_with_the_last_one():
    batch = Batch.objects.create()
    *_, last = line(up_to(2), batch=batch)
    assert batch.progress().total == 1
    assert batch.jobs.get() == last


def test_chain_goes_on_behind_the_last_one():
    bodies.body = up_to(2, lambda job, number: job.sleep("nap", DAY))
    first, after = chain(bodies.numbered.bind(), bodies.child.bind(1)).enqueue()
    goes_on(after)
    assert after.status == "WAITING"
    last = first.newest()
    assert Predecessor.objects.get(is_open=True).predecessor_id == last.pk
    last.run_now()
    assert goes_on(after).status == "SUCCESSFUL"


def test_chain_stops_when_the_last_one_fails():
    bodies.body = up_to(1, lambda job, number: 1 / 0)
    first, after = chain(
        bodies.numbered.using(max_attempts=1).bind(), bodies.child.bind(1)
    ).enqueue()
    goes_on(after)
    assert (after.status, after.blocked_by_id) == ("CANCELLED", first.newest().pk)


def test_group_calls_back_after_the_last_one():
    bodies.body = up_to(2)
    callback = bodies.child.bind(1)
    enqueued = group([bodies.numbered.bind(), bodies.numbered.bind()], then=callback)
    enqueued.enqueue()
    drain()
    after = Job.objects.get(task="durable.child")
    assert after.status == "SUCCESSFUL"
    assert after.pk < min(job.pk for job in jobs() if job.kwargs["number"] == 1)


def test_job_that_comes_later_waits_for_the_newest():
    *between, last = line(up_to(2, lambda job, number: job.sleep("nap", DAY)))
    after = [bodies.child.using(after=[job]).enqueue(1) for job in between]
    drain()
    assert {goes_on(job).status for job in after} == {"WAITING"}
    last.run_now()
    assert {goes_on(job).status for job in after} == {"SUCCESSFUL"}


def test_job_that_waits_for_several_of_a_line_waits_once():
    *between, last = line(up_to(3, lambda job, number: job.sleep("nap", DAY)))
    after = bodies.child.using(after=[*between, last]).enqueue(1)
    goes_on(after)
    (link,) = Predecessor.objects.filter(job_id=after.pk, is_open=True)
    assert link.predecessor_id == last.pk
    last.run_now()
    assert goes_on(after).status == "SUCCESSFUL"


def test_old_id_finds_the_newest_when_the_rows_between_are_gone():
    first, second, last = line(up_to(2, lambda job, number: job.sleep("nap", DAY)))
    Job.objects.filter(pk=second.pk).delete()
    assert first.newest() == last
    after = bodies.child.using(after=[first]).enqueue(1)
    Job.objects.filter(pk=first.pk).delete()
    assert goes_on(after).status == "WAITING"
    last.run_now()
    assert goes_on(after).status == "SUCCESSFUL"


def test_chain_behind_a_deleted_successor_is_cancelled():
    first, last = line(up_to(1, lambda job, number: job.sleep("nap", DAY)))
    after = bodies.child.using(after=[first]).enqueue(1)
    goes_on(after)
    last.delete()
    assert goes_on(after).status == "CANCELLED"


def test_task_that_waits_for_jobs_waits_for_the_newest():
    def body(job, number=None):
        if number is None:
            return job.wait_for_jobs("other", [first.pk])
        return job.sleep("nap", DAY) or "end"

    first, last = line(up_to(1, body))
    bodies.body = body
    waiting = bodies.plain.enqueue()
    assert goes_on(waiting).status == "WAITING"
    last.run_now()
    assert goes_on(waiting).return_value == [[first.pk, "SUCCESSFUL", "end", ""]]


def test_job_that_goes_on_while_another_task_waits_for_it():
    def body(job, number=None):
        if number is None:
            return job.wait_for_jobs("it", [first])[0].status
        return job.sleep("nap", DAY) or number or job.continue_as(number=1)

    bodies.body = body
    first = bodies.numbered.enqueue()
    drain()
    waiting = bodies.plain.enqueue()
    drain()
    first.run_now()
    drain()
    assert goes_on(waiting).status == "WAITING"
    assert Predecessor.objects.get(is_open=True).predecessor_id == first.newest().pk
    first.newest().run_now()
    assert goes_on(waiting).return_value == "SUCCESSFUL"


def test_circle_through_an_old_id_is_refused():
    (first, *_) = line(up_to(1, lambda job, number: job.sleep("nap", DAY)))
    bodies.body = lambda job, number: job.wait_for_jobs("self", [first.pk])
    first.newest().run_now()
    drain()
    last = first.newest()
    assert last.status == "FAILED"
    assert "wait for this job" in last.reason


def test_waiting_for_the_result_waits_for_the_newest():
    first, *_ = line(up_to(2))
    assert first.wait(timeout=5) == 2
    Job.objects.filter(pk=first.pk).delete()
    assert first.wait(timeout=5) == 2


# Answers and events


def test_answer_to_an_old_id_reaches_the_newest():
    body = up_to(2, lambda job, number: job.wait_for("question", str))
    first, second, last = line(body)
    assert second.answer("question", "yes")
    assert not first.answer("question", "no")
    assert goes_on(last).return_value == "yes"
    assert not first.answer("question", "late")


def test_wrong_answer_to_an_old_id_is_refused():
    first, _ = line(up_to(1, lambda job, number: job.wait_for("question", int)))
    with pytest.raises(ValueError, match="question"):
        first.answer("question", "many")


def test_answer_that_came_early_goes_on_unless_it_was_taken():
    def body(job, number):
        if number == 0:
            assert job.wait_for("first", str) == "one"
            job.continue_as(number=1)
        return job.wait_for("second", str), job.wait_for("first", str, timeout=0)

    bodies.body = body
    job = bodies.numbered.enqueue()
    assert job.answer("first", "one")
    assert job.answer("second", "two")
    drain()
    assert goes_on(job.newest()).return_value == ["two", None]


def test_each_event_is_taken_once_by_a_line():
    def body(job, number):
        event = job.wait_for_event("order.paid", timeout=DAY if number < 3 else 0)
        if event is None:
            return number
        seen.append(event.payload["number"])
        job.continue_as(number=number + 1)

    seen: list[int] = []
    bodies.body = body
    job = bodies.numbered.enqueue()
    for number in range(3):
        publish("order.paid", {"number": number})
    drain()
    assert goes_on(job.newest()).return_value == 3
    assert seen == [0, 1, 2]


def test_event_of_before_the_first_enqueue_does_not_count():
    publish("order.paid")
    body = up_to(1, lambda job, number: job.wait_for_event("order.paid", timeout=0))
    *_, last = line(body)
    assert goes_on(last).return_value is None


def test_new_life_of_a_successor_takes_again_what_it_has_taken():
    def body(job, number):
        event = job.wait_for_event("order.paid", timeout=DAY)
        seen.append(event.id)
        return number or job.continue_as(number=1)

    seen: list[int] = []
    bodies.body = body
    job = bodies.numbered.enqueue()
    one, two = publish("order.paid"), publish("order.paid")
    drain()
    assert job.newest().retry()
    drain()
    assert seen == [one.pk, two.pk, two.pk]


def test_successor_of_new_code_has_its_version():
    execute(
        "INSERT INTO pgjobs_job (task, keys) "
        """VALUES ('durable.numbered', '{"version": 4}')"""
    )
    bodies.body = up_to(1, lambda job, number: job.version)
    drain()
    assert jobs()[-1].return_value == 1


# Unique keys


@pytest.mark.parametrize("unique_for", ["unfinished", timedelta(days=1)])
def test_unique_key_moves(unique_for):
    task = bodies.numbered.using(unique_key="one", unique_for=unique_for)
    bodies.body = up_to(1, lambda job, number: job.sleep("nap", DAY))
    first = task.enqueue()
    drain()
    last = first.newest()
    assert task.enqueue().pk == last.pk
    assert last.unique_key == "one"


def test_successor_goes_without_a_key_that_another_job_holds():
    task = bodies.numbered.using(unique_key="one", unique_for="waiting")

    def body(job, number):
        if number == 0:
            task.using(run_after=DAY).enqueue(5)
            job.continue_as(number=1)

    bodies.body = body
    first = task.enqueue()
    drain()
    last = first.newest()
    assert (last.status, last.unique_key) == ("SUCCESSFUL", None)
    assert "holds the unique key 'one'" in last.progress.log


def test_enqueue_works():
    bodies.body = up_to(1)
    job = enqueue(bodies.numbered)
    drain()
    assert job.newest().return_value == 1


def test_cancel_of_an_old_job_cancels_the_newest():
    first, _second, third = line(
        up_to(2, lambda job, number: job.wait_for("question", str))
    )
    assert first.cancel("enough")
    third.refresh_from_db()
    assert (first.status, third.status, third.reason) == (
        *("SUCCESSFUL", "CANCELLED"),
        "enough",
    )
    assert not first.cancel("again")


def test_cancel_of_a_whole_line_counts_the_job_that_it_ended():
    line(up_to(2, lambda job, number: job.wait_for("question", str)))
    assert Job.objects.filter(task="durable.numbered").cancel() == (1, 2)


def test_cancel_from_sql_reaches_the_newest():
    first, second = line(up_to(1, lambda job, number: job.wait_for("question", str)))
    assert execute("SELECT pgjobs_cancel(%s, 'enough')", [first.pk]) == [(True,)]
    second.refresh_from_db()
    assert (second.status, second.reason) == ("CANCELLED", "enough")


def test_cancel_from_sql_by_the_id_of_a_first_that_is_gone_reaches_the_newest():
    first, _ = line(up_to(1, lambda job, number: job.wait_for("question", str)))
    Job.objects.filter(pk=first.pk).delete()
    assert execute("SELECT pgjobs_cancel(%s)", [first.pk]) == [(True,)]


def test_cancel_of_a_job_that_goes_on_as_nothing_that_is_known_ends():
    first, second = line(up_to(1))
    Job.objects.filter(pk=second.pk).delete()
    assert not first.cancel()
