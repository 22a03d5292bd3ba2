"""Answers: each is taken once, whenever it comes, and only by what may answer."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import pytest
from django.db import DataError, connection, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy
from pydantic import BaseModel, Field, field_validator

from pgjobs.features.durable import queue
from pgjobs.features.durable.declare import Answer as Ask
from pgjobs.models import Answer, AuditEntry, Job, Step, Wait, WaitNote
from tests.actors import WAITING_SESSIONS, Hand, admit, execute, in_thread, session
from tests.features.durable import bodies
from tests.features.durable.bodies import done, enqueued, goes_on
from tests.processes import running_worker, shared_queue, wait_for, wait_for_status

pytestmark = shared_queue
DAY = timedelta(days=1)
APPROVE = """SELECT pgjobs_answer(%(id)s, 'approval', '{"approved": true}')"""


@dataclass
class Approval:
    approved: bool
    note: str = ""


class Amount(BaseModel):
    euros: int = Field(ge=1)


def asks(job):
    answer = job.wait_for("approval", Approval, title="Refund of order 5?")
    return answer and f"{type(answer).__name__} {answer.approved}"


def test_job_waits_for_an_answer_and_gets_it():
    job = done(asks)
    assert (job.status, job.waiting_for) == ("WAITING", "answer")
    wait = Wait.objects.get(job=job)
    assert (wait.name, wait.label, wait.ended_at) == ("approval", "", None)
    assert wait.asked["title"] == "Refund of order 5?"
    assert job.answer("approval", Approval(approved=True)) is True
    goes_on(job)
    assert (job.status, job.return_value) == ("SUCCESSFUL", "Approval True")
    assert job.attempts == 2
    assert Wait.objects.get(job=job).ended_at is not None
    assert not WaitNote.objects.exists()


def test_answer_that_comes_before_the_task_asks_counts():
    job = enqueued(asks)
    assert job.answer("approval", {"approved": True, "note": "early"})
    goes_on(job)
    assert (job.status, job.attempts) == ("SUCCESSFUL", 2)


def test_only_the_first_answer_counts():
    job = done(asks)
    assert job.answer("approval", Approval(approved=False))
    assert job.answer("approval", Approval(approved=True)) is False
    goes_on(job)
    assert job.return_value == "Approval False"
    assert job.answer("approval", Approval(approved=True)) is False


def test_answer_wakes_its_job_with_its_commit():
    job = done(asks)
    with transaction.atomic():
        assert job.answer("approval", Approval(approved=True))
        assert outside_status(job) == "WAITING"
    assert outside_status(job) == "READY"
    notes = WaitNote.objects.filter(due_at__lte=timezone.now())
    assert not notes.exists(), "nobody has to look"


def outside_status(job):
    """Return the status of a job as other sessions see it."""
    query = "SELECT status FROM pgjobs_job WHERE id = %(id)s"
    with session() as outside:
        return outside.execute(query, {"id": job.pk})[0][0]


@pytest.mark.parametrize("first_commits", [True, False])
def test_second_answer_waits_for_the_first(first_commits):
    job = done(asks)
    other = Job.objects.get(pk=job.pk)
    with session() as outside:
        outside.begin()
        outside.execute(APPROVE, {"id": job.pk})
        with in_thread(other.answer, "approval", Approval(approved=False)) as second:
            wait_for(lambda: execute(WAITING_SESSIONS)[0][0], "the second one waits")
            outside.commit() if first_commits else outside.rollback()
    assert second.result() is not first_commits
    goes_on(job)
    assert job.return_value == f"Approval {first_commits}"


def test_answer_that_is_rolled_back_changes_nothing():
    job = done(asks)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        assert job.answer("approval", Approval(approved=True))
        raise ZeroDivisionError
    goes_on(job)
    assert job.status == "WAITING"
    assert not Answer.objects.exists()


def let_time_pass(job):
    """Let the time of the job's waits be over."""
    execute("UPDATE pgjobs_wait SET deadline = now() - interval '1 second'")
    execute("UPDATE pgjobs_waitnote SET due_at = now()")


def test_wait_whose_time_is_over_gives_none():
    job = done(asks)
    let_time_pass(job)
    goes_on(job)
    assert (job.status, job.return_value) == ("SUCCESSFUL", None)
    assert job.answer("approval", Approval(approved=True)) is False


def test_deadline_is_stored_at_the_first_call():
    job = done(lambda job: job.wait_for("approval", bool, timeout=DAY))
    deadline = Wait.objects.get().deadline
    assert deadline - Wait.objects.get().opened_at == pytest.approx(
        DAY, abs=timedelta(seconds=1)
    )
    execute("INSERT INTO pgjobs_waitnote (job_id) VALUES (%(id)s)", {"id": job.pk})
    goes_on(job)
    assert Wait.objects.get().deadline == deadline


def test_time_does_not_end_while_somebody_answers():
    job = done(asks)
    let_time_pass(job)
    with session() as outside:
        outside.begin()
        outside.execute(APPROVE, {"id": job.pk})
        goes_on(job)
        assert job.status == "WAITING"
        outside.commit()
    goes_on(job)
    assert job.return_value == "Approval True"


@pytest.mark.parametrize(
    ("kind", "good", "arrives", "bad"),
    [
        (bool, True, True, "yes"),
        (str, "yes", "yes", 5),
        (int, 5, 5, "5"),
        (Literal["a", "b"], "b", "b", "c"),
        (["a", "b"], "b", "b", "c"),
        (list[int], [1, 2], [1, 2], [1, "2"]),
        (Amount, {"euros": 5}, {"euros": 5}, {"euros": 0}),
        (Approval, Approval(True), {"approved": True, "note": ""}, {"approved": "x"}),
    ],
)
def test_type_of_an_answer_is_checked_when_it_is_given(kind, good, arrives, bad):
    def asks_for_kind(job):
        answer = job.wait_for("question", kind)
        return getattr(answer, "__dict__", answer)

    job = done(asks_for_kind)
    with pytest.raises(ValueError, match="Invalid answer to 'question'"):
        job.answer("question", bad)
    assert job.answer("question", good)
    goes_on(job)
    assert (job.status, job.return_value) == ("SUCCESSFUL", arrives)


def test_early_answer_of_another_type_is_dropped_and_the_job_waits_on():
    job = enqueued(lambda job: job.wait_for("question", bool))
    assert job.answer("question", "not a bool")
    goes_on(job)
    assert job.status == "WAITING"
    assert "was dropped" in job.progress.log
    assert AuditEntry.objects.get().act == "answer"
    assert job.answer("question", True)
    assert goes_on(job).return_value is True


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("", True, "1 to 200 characters"),
        ("x" * 300, True, "1 to 200 characters"),
        (5, True, "1 to 200 characters"),
        ("a\0b", True, r"The name of answer 'a\\x00b' contains NUL"),
        ("\ud800", True, "contains a lone surrogate"),
        ("question", None, "cannot be None"),
        ("question", object(), "is no JSON"),
        ("question", "x" * 10_000_000, "more than the 64000"),
    ],
)
def test_bad_answer_is_refused(name, value, told):
    job = enqueued(asks)
    with pytest.raises(ValueError, match=told):
        job.answer(name, value)
    assert not Answer.objects.exists()


@pytest.mark.parametrize("end", ["succeed", "fail", "cancel", "delete"])
def test_answer_to_a_job_that_has_ended_is_false(end):
    job = done(asks)
    same = Job.objects.get(pk=job.pk)
    getattr(same, end)()
    assert job.answer("approval", Approval(approved=True)) is False
    assert not Answer.objects.exists()


def test_answers_and_waits_go_with_their_job():
    job = done(asks)
    job.answer("approval", Approval(approved=True))
    job.delete()
    assert not (Answer.objects.exists() or Wait.objects.exists())


def test_permission_that_does_not_exist_fails_the_ask():
    job = done(lambda job: job.wait_for("question", bool, permission="shop.nothing"))
    assert job.status == "FAILED"
    assert "permission 'shop.nothing' does not exist" in job.reason


def test_type_that_json_cannot_carry_fails_the_ask():
    job = done(lambda job: job.wait_for("question", connection))
    assert job.status == "FAILED"
    assert "must be one that JSON can carry" in job.reason


@pytest.mark.parametrize(
    ("title", "stored"),
    [(None, ""), (gettext_lazy("Job"), "Job"), (5, "5"), ("a\0b", "a\ufffdb")],
)
def test_title_is_any_text(title, stored):
    job = done(lambda job: job.wait_for("question", bool, title=title))
    assert Wait.objects.get(job=job).asked["title"] == stored


def test_long_title_is_cut():
    job = done(lambda job: job.wait_for("question", bool, title="x" * 1_000_000))
    assert len(Wait.objects.get(job=job).asked["title"]) < 1_100


@pytest.mark.parametrize(
    "ask",
    [
        lambda job: job.wait_for("question", [float("nan"), 1.0]),
        lambda job: job.wait_for_event("order.paid", aggregate_id="\0"),
        lambda job: job.wait_for_first({"\0": Ask(bool)}, name="question"),
        lambda job: job.wait_for_jobs("others", [2**70]),
    ],
)
def test_what_cannot_be_stored_fails_the_ask(ask):
    job = done(ask)
    assert (job.status, job.attempts) == ("FAILED", 1)
    assert "stored" in job.reason or "their ids" in job.reason or "NUL" in job.reason


# SQL


def test_sql_answers():
    job = done(asks)
    call = f"SELECT pgjobs_answer({job.pk}, 'approval', %(value)s)"
    with pytest.raises(DataError, match="Invalid answer to 'approval'"):
        execute(call, {"value": '{"approved": 5}'})
    assert execute(call, {"value": '{"approved": true}'}) == [(True,)]
    assert execute(call, {"value": '{"approved": true}'}) == [(False,)]
    assert goes_on(job).return_value == "Approval True"


# Orders of commits


def test_answer_that_commits_after_the_job_has_begun_to_wait_wakes_it():
    """The answer saw no wait, and the job saw no answer."""
    job = enqueued(asks)
    with session() as outside:
        outside.begin()
        outside.execute(APPROVE, {"id": job.pk})
        goes_on(job)
        assert job.status == "WAITING"
        outside.commit()
    assert goes_on(job).return_value == "Approval True"


def test_worker_that_listens_goes_on_soon_after_an_answer():
    with running_worker(slots=1):
        job = enqueued(asks)
        wait_for_status(job, "WAITING")
        job.answer("approval", Approval(approved=True))
        wait_for_status(job, "SUCCESSFUL")


def test_retry_from_the_beginning_asks_again():
    job = done(asks)
    job.answer("approval", Approval(approved=True))
    goes_on(job)
    job.retry()
    goes_on(job)
    assert (job.status, job.life) == ("WAITING", 2)
    assert job.answer("approval", Approval(approved=False))
    assert goes_on(job).return_value == "Approval False"


def test_done_waits_ask_the_database_nothing():
    def asks_twice(job):
        first = job.wait_for("first", bool)
        return first, job.wait_for("second", bool)

    job = done(asks_twice)
    job.answer("first", True)
    goes_on(job)
    job.answer("second", False)
    assert goes_on(job).return_value == [True, False]
    assert Step.objects.filter(job=job).count() == 2


def test_coroutine_asks():
    async def asks_later(job):
        return await job.await_for("question", bool)

    job = done(asks_later, bodies.coroutine)
    assert job.status == "WAITING"
    job.answer("question", True)
    assert goes_on(job).return_value is True


def test_two_waits_at_once_are_refused_with_the_cure():
    async def both(job):
        await asyncio.gather(job.await_for("one", bool), job.await_for("two", bool))

    job = done(both, bodies.coroutine)
    assert job.status == "FAILED"
    assert "wait_for_first" in job.reason


def test_suspension_inside_a_task_group_is_found():
    async def grouped(job):
        async with asyncio.TaskGroup() as group:
            group.create_task(job.await_for("one", bool))

    job = done(grouped, bodies.coroutine)
    assert job.status == "WAITING"


# What a worker needs to ask


class Even(BaseModel):
    """An answer whose whole type only Python can check."""

    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        if number % 2:
            raise ValueError("is odd")
        return number


@pytest.fixture
def looks(monkeypatch) -> list[str]:
    """Keep what each look at a wait has found."""
    states: list[str] = []

    def take_wait(*arguments):
        taken = take(*arguments)
        states.append(taken.state)
        return taken

    take = queue.take_wait
    monkeypatch.setattr(queue, "take_wait", take_wait)
    return states


def test_answer_of_code_is_taken_at_once_where_the_type_is_plain(looks):
    job = done(lambda job: job.wait_for("question", bool))
    job.answer("question", True)
    assert goes_on(job).return_value is True
    assert looks == ["taken"]


def test_early_answer_of_another_type_is_offered_and_dropped(looks):
    job = enqueued(lambda job: job.wait_for("question", bool))
    job.answer("question", "yes")
    assert goes_on(job).status == "WAITING"
    assert looks == ["offered", "open"]


@pytest.mark.parametrize(("number", "states"), [(2, ["offered", "taken"]), (1, None)])
def test_answer_whose_type_only_python_knows_is_offered(number, states, looks):
    job = done(lambda job: job.wait_for("question", Even).number)
    job.answer("question", {"number": number})
    goes_on(job)
    assert looks == (states or ["offered", "open"])
    assert job.return_value == (number if states else None)


def test_end_of_a_job_that_only_waits_for_events_needs_no_admission():
    job = bodies.plain.enqueue()
    hand = Hand()
    claimed = hand.claim_one()
    assert claimed.id == job.pk
    assert not claimed.is_keyed
    assert hand.succeed(claimed)
    job.refresh_from_db()
    assert (job.status, job.line) == ("SUCCESSFUL", None)
    cancelled = bodies.plain.enqueue()
    cancelled.cancel()
    cancelled.refresh_from_db()
    assert (cancelled.status, cancelled.line) == ("CANCELLED", None)


def test_end_of_a_job_with_a_successor_needs_an_admission():
    job = bodies.plain.enqueue()
    bodies.child.using(after=job).enqueue(1)
    admit()
    hand = Hand()
    claimed = hand.claim_one()
    assert claimed.id == job.pk
    assert claimed.is_keyed
    hand.succeed(claimed)
    job.refresh_from_db()
    assert job.line == "recorded"
