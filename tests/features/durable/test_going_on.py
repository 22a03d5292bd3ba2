"""Retries that keep steps, and steps that are marked by hand."""

from datetime import timedelta

import pytest

from pgjobs import Cancel, Retry, publish
from pgjobs.exceptions import InvalidStep
from pgjobs.features.durable.acts import COLUMNS, has_steps, kept_by
from pgjobs.features.durable.places import sleeps
from pgjobs.models import Job, Step
from pgjobs.tasks import registry
from tests.actors import execute
from tests.features.durable import bodies
from tests.features.durable.bodies import done, enqueued, goes_on
from tests.processes import shared_queue
from tests.support.declared import store_definitions

pytestmark = shared_queue
DAY = timedelta(days=1)
seen: list = []


@pytest.fixture(autouse=True)
def nothing_seen():
    seen.clear()


def note(name: str) -> str:
    seen.append(name)
    return name


def three_steps(job):
    for name in ("one", "two", "three"):
        job.step(name, note, name)
    if len(seen) < 4:
        raise ArithmeticError
    return job.key


def test_retry_that_keeps_steps_goes_on_behind_them_with_the_same_key():
    job = done(three_steps)
    assert (job.status, seen) == ("FAILED", ["one", "two", "three"])
    seen.append("mended")
    assert job.retry(keep_steps=True)
    goes_on(job)
    assert job.return_value == f"{job.pk}:1"
    assert (job.life, seen) == (2, ["one", "two", "three", "mended"])


def test_retry_until_a_step_keeps_those_before_it():
    job = done(three_steps)
    job.retry(until="two")
    goes_on(job)
    assert seen == ["one", "two", "three", "two", "three"]
    assert job.return_value == f"{job.pk}:1"


def test_retry_until_a_name_that_is_not_finished_keeps_all():
    job = done(three_steps)
    seen.append("mended")
    job.retry(until="nothing")
    assert goes_on(job).status == "SUCCESSFUL"
    assert len(seen) == 4


def test_retry_that_keeps_no_step_has_a_new_key():
    job = done(three_steps)
    job.retry(until="one")
    goes_on(job)
    assert job.return_value == f"{job.pk}:2"


def test_third_life_has_the_key_of_the_first():
    job = done(three_steps)
    job.retry(keep_steps=True)
    goes_on(job)
    seen.append("mended")
    job.retry(keep_steps=True)
    assert goes_on(job).return_value == f"{job.pk}:1"


def test_sets_and_sql_retry_with_steps():
    job = done(three_steps)
    assert Job.objects.filter(pk=job.pk).retry(keep_steps=True) == (1, 0)
    goes_on(job)
    seen.append("mended")
    assert execute(f"SELECT pgjobs_retry({job.pk}, until => 'three')") == [(True,)]
    assert execute(f"SELECT pgjobs_retry({job.pk}, true)") == [(False,)]
    assert goes_on(job).status == "SUCCESSFUL"
    assert seen == ["one", "two", "three", "mended", "three"]


def test_coroutine_of_a_later_life_has_its_key():
    async def body(job):
        await job.astep("one", note, "one")
        return job.key

    job = done(body, bodies.coroutine)
    job.retry(keep_steps=True)
    assert goes_on(job).return_value == f"{job.pk}:1"


def waits_for_all(job):
    store = [job.wait_for("answer", bool, timeout=DAY)]
    store.append(job.wait_for_event("order.paid").id)
    job.sleep("nap", DAY)
    return store


def test_retry_keeps_answers_and_events_but_no_sleep_that_has_not_ended():
    store_definitions()
    job = done(waits_for_all)
    job.answer("answer", True)
    goes_on(job)
    event = publish("order.paid")
    goes_on(job)
    assert job.status == "SCHEDULED"
    job.cancel()
    job.retry(keep_steps=True)
    goes_on(job)
    assert (job.status, job.life) == ("SCHEDULED", 2)
    assert job.run_after is not None
    job.run_now()
    assert goes_on(job).return_value == [True, event.pk]


@pytest.mark.parametrize("fails_before_body", [False, True])
def test_retry_keeps_a_sleep_that_somebody_ended(
    fails_before_body, monkeypatch, settings
):
    def body(job):
        job.sleep("nap", DAY)
        if not seen:
            seen.append("failed")
            raise Cancel

    job = done(body)
    job.run_now()
    with monkeypatch.context() as old_worker:
        if fails_before_body:
            seen.append("failed")
            unknown_to_workers(old_worker)
            settings.PGJOBS = {"UNKNOWN_TASK_GRACE": 0}
        goes_on(job)
    registry.forget_names()
    assert job.status in ("CANCELLED", "FAILED")
    assert has_steps(Job.objects.annotate(**dict(COLUMNS)).get())
    assert kept_by(job) == (["nap"], [])
    for life in (2, 3):
        job.retry(keep_steps=True)
        assert (goes_on(job).status, job.life) == ("SUCCESSFUL", life)


def test_job_that_backs_off_after_its_sleep_was_ended_does_not_sleep():
    def body(job):
        job.sleep("nap", DAY)
        raise Retry(after=60)

    job = done(body)
    assert [step.name for step in sleeps("default")] == ["nap"]
    job.run_now()
    assert goes_on(job).status == "SCHEDULED"
    assert not sleeps("default")


def test_retry_asks_again_what_nobody_answered_in_time():
    def asks(job):
        if job.wait_for("question", bool, timeout=0) is None and job.life == 1:
            raise ArithmeticError
        return job.wait_for("more", bool)

    job = done(asks)
    goes_on(job)
    assert job.status == "FAILED"
    job.retry(keep_steps=True)
    assert not Step.objects.filter(life=2).exists()
    assert goes_on(job).status in ("WAITING", "SUCCESSFUL")


@pytest.mark.parametrize("ends", ["cancel", "fail"])
def test_plain_retry_of_a_job_that_was_ended_in_its_sleep_is_due_at_once(ends):
    job = done(lambda job: job.step("one", note, job.life) and job.sleep("nap", DAY))
    getattr(job, ends)()
    assert job.retry()
    assert job.status == "READY"
    goes_on(job)
    assert (job.status, job.life, seen) == ("SCHEDULED", 2, [1, 2])


def test_retry_of_a_job_that_was_cancelled_before_it_was_due_stays_scheduled():
    job = bodies.plain.using(run_after=DAY).enqueue()
    job.cancel()
    job.retry()
    assert job.status == "SCHEDULED"


# By hand


def test_step_marked_by_hand_ends_a_wait():
    job = done(lambda job: job.wait_for("question", str))
    assert job.mark_step("question", "by hand")
    assert job.answer("question", "late") is False
    assert goes_on(job).return_value == "by hand"


@pytest.mark.parametrize(
    ("wait", "value"),
    [
        (lambda job: job.wait_for("it", bool), "x"),
        (lambda job: job.wait_for_event("order.paid", name="it"), "x"),
        (lambda job: job.wait_for_event("order.paid", name="it"), {"id": 5}),
        (lambda job: job.wait_for_jobs("it", [job.id + 1]), 5),
        (lambda job: job.wait_for_jobs("it", [job.id + 1]), [5]),
        (lambda job: job.wait_for_first({"a": "order.paid"}, name="it"), True),
        (lambda job: job.wait_for_first({"a": "order.paid"}, name="it"), {"label": 5}),
    ],
)
def test_wait_that_ended_with_what_the_task_cannot_take_fails_the_job(wait, value):
    """As by a step that was marked by hand, or after a deploy."""
    job = enqueued(wait)
    bodies.child.using(run_after=DAY).enqueue(1)
    goes_on(job)
    assert job.status == "WAITING"
    assert job.mark_step("it", value)
    goes_on(job)
    assert job.status == "FAILED"
    assert "The wait 'it' has ended with" in job.reason


def test_step_marked_by_hand_ends_a_sleep():
    job = done(lambda job: job.sleep("nap", DAY))
    assert job.mark_step("nap", None)
    assert goes_on(job).status == "SUCCESSFUL"


def test_step_marked_by_hand_leaves_the_sleep_before_it():
    job = done(lambda job: [job.sleep("nap", DAY), job.step("one", note, "one")][1])
    assert job.mark_step("one", "by hand")
    assert goes_on(job).status == "SCHEDULED"
    job.run_now()
    assert (goes_on(job).return_value, seen) == ("by hand", [])


def test_step_marked_by_hand_is_skipped_by_a_retry():
    job = done(three_steps)
    assert job.mark_step("four", 4)
    assert not job.mark_step("one", 1)
    job.retry(until="two")
    assert Step.objects.filter(life=2).count() == 1


@pytest.mark.parametrize("status", ["RUNNING", "new"])
def test_step_of_a_job_that_runs_or_has_not_begun_cannot_be_marked(status):
    bodies.body = lambda job: marked.append(Job.objects.get().mark_step("one", 1))
    marked: list = []
    job = bodies.plain.enqueue()
    if status == "new":
        assert job.mark_step("one", 1) is False
    else:
        goes_on(job)
        assert marked == [False]


def test_bad_value_of_a_step_is_refused():
    job = done(lambda job: job.sleep("nap", DAY))
    with pytest.raises(InvalidStep, match="cannot be stored"):
        job.mark_step("nap", object())


def test_job_keeps_the_version_of_its_enqueue():
    store_definitions()
    assert done(lambda job: job.version).return_value == 1
    assert done(lambda job: job.version, bodies.second_version).return_value == 2
    execute("SELECT pgjobs_enqueue('durable.second_version')")
    job = Job.objects.latest("pk")
    assert goes_on(job).return_value == 2


# Workers of older code


def asks(job):
    return job.wait_for("question", bool)


def unknown_to_workers(monkeypatch) -> None:
    monkeypatch.delitem(registry.tasks, bodies.plain.origin)
    registry.forget_names()


def test_job_that_goes_on_where_its_task_is_unknown_keeps_its_answer(monkeypatch):
    job = done(asks)
    execute("UPDATE pgjobs_job SET enqueued_at = enqueued_at - interval '20 days'")
    assert job.answer("question", True)
    with monkeypatch.context() as old_worker:
        unknown_to_workers(old_worker)
        assert goes_on(job).status == "SCHEDULED"
    registry.forget_names()
    job.run_now()
    assert goes_on(job).return_value is True


@pytest.mark.parametrize("until", [None, "nothing", "question"])
def test_retry_that_keeps_steps_keeps_an_answer_that_was_accepted_and_not_taken(
    until, monkeypatch, settings
):
    job = done(asks)
    assert job.answer("question", True)
    with monkeypatch.context() as old_worker:
        unknown_to_workers(old_worker)
        settings.PGJOBS = {"UNKNOWN_TASK_GRACE": 0}
        assert goes_on(job).status == "FAILED"
    registry.forget_names()
    assert job.retry(keep_steps=True, until=until)
    assert not job.answer("question", False)
    assert goes_on(job).return_value is True
    assert job.life == 2


def test_retry_that_keeps_steps_does_not_take_an_answer_twice():
    def body(job):
        first = job.wait_for("one", bool)
        if len(seen) == 0:
            seen.append("broken")
            raise Cancel
        return [first, job.wait_for("two", bool)]

    job = done(body)
    job.answer("one", True)
    assert goes_on(job).status == "CANCELLED"
    assert job.retry(keep_steps=True)
    assert goes_on(job).status == "WAITING"
    assert not job.answer("one", False)
    assert job.answer("two", True)
    assert goes_on(job).return_value == [True, True]


def test_retry_until_a_step_asks_again_for_what_was_answered_behind_it():
    def body(job):
        job.step("before", note, "before")
        first = job.wait_for("one", bool)
        if len(seen) == 1:
            raise Cancel
        return [first, job.wait_for("two", bool)]

    job = done(body)
    job.answer("one", True)
    job.answer("two", True)
    assert goes_on(job).status == "CANCELLED"
    assert job.retry(until="before")
    assert goes_on(job).status == "WAITING"
    job.answer("one", False)
    goes_on(job)
    job.answer("two", False)
    assert goes_on(job).return_value == [False, False]


def test_plain_retry_asks_again():
    job = done(asks)
    job.answer("question", True)
    job.cancel()
    assert job.retry()
    assert goes_on(job).status == "WAITING"
    assert job.answer("question", False)
