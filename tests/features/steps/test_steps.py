"""Steps: done once per life of a job, whatever happens to its attempts."""

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async
from django.db import IntegrityError, connections, transaction

from pgjobs import Retry, current_job, enqueue, task
from pgjobs.exceptions import InvalidStep, LeaseLost
from pgjobs.features.steps import running_job as steps_module
from pgjobs.models import Attempt, Step
from pgjobs.queue import claiming, upkeep
from tests import tasks
from tests.actors import Hand, attempts_of, execute, in_thread, session
from tests.declaring.test_context import inside, running_job
from tests.processes import drain, run, shared_queue, wait_for, wait_for_status

pytestmark = shared_queue


@pytest.fixture
def effects():
    """A table that steps leave effects in; equal lines are refused at COMMIT."""
    with session() as outside:
        outside.execute(
            "CREATE TABLE step_effect (line text UNIQUE DEFERRABLE INITIALLY DEFERRED)"
        )
        yield lambda: [row[0] for row in outside.execute("SELECT * FROM step_effect")]
        outside.execute("DROP TABLE step_effect")


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "lines")


def leave(line: str) -> str:
    execute("INSERT INTO step_effect VALUES (%(line)s)", {"line": line})
    return line


def call(path: str, line: str):
    """Act outside of the database, where everything counts that was done."""
    tasks.write(path, line)
    return {"line": line, "call": len(tasks.lines(path))}


def stored() -> list[tuple]:
    steps = Step.objects.order_by("pk")
    return list(steps.values_list("name", "life", "attempt", "return_value"))


# Once per life


@task(max_attempts=3, backoff=lambda failures: 0)
def three_steps(path: str, fail_at: int = 0):
    job = current_job()
    results = []
    for number in (1, 2, 3):
        if job.attempt == 1 and number == fail_at:
            raise ValueError("no")
        results.append(job.step(f"step {number}", call, path, line=f"line {number}"))
    return results


@pytest.mark.parametrize("fail_at", [0, 1, 2, 3])
def test_retry_skips_what_is_done_and_gets_the_same_results(path, fail_at):
    job = run(three_steps, path, fail_at)
    assert job.status == "SUCCESSFUL"
    assert tasks.lines(path) == ["line 1", "line 2", "line 3"]
    results = [{"line": f"line {number}", "call": number} for number in (1, 2, 3)]
    assert job.return_value == results
    done_in = [1 if number < fail_at or not fail_at else 2 for number in (1, 2, 3)]
    assert stored() == [
        (f"step {number}", 1, done_in[number - 1], results[number - 1])
        for number in (1, 2, 3)
    ]


def test_operators_retry_begins_with_the_first_step_again(path):
    job = run(three_steps, path, 2)
    assert job.retry()
    drain()
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"
    assert tasks.lines(path) == ["line 1", "line 2", "line 3"] * 2
    assert [step[1] for step in stored()] == [1, 1, 1, 2, 2, 2]


def test_step_outlives_the_process(start_worker, path):
    brisk = {"HEARTBEAT_INTERVAL": 0.4, "LEASE_DURATION": 3}
    start_worker(settings=brisk)
    job = enqueue(tasks.die_after_a_step, path)
    wait_for(lambda: Step.objects.exists())
    start_worker(settings=brisk)
    wait_for_status(job, "SUCCESSFUL")
    assert tasks.lines(path) == ["charged", "shipped"]
    assert (job.attempts, job.crashes) == (2, 1)


@task(max_attempts=3, backoff=lambda failures: 0)
def step_that_fails_once(path: str):
    job = current_job()

    def flaky():
        call(path, f"attempt {job.attempt}")
        if job.attempt == 1:
            raise ValueError("no")

    return job.step("flaky", flaky)


def test_step_that_raised_is_not_done(path):
    assert run(step_that_fails_once, path).status == "SUCCESSFUL"
    assert tasks.lines(path) == ["attempt 1", "attempt 2"]


@task
def try_again_at_once(path: str):
    job, errors = current_job(), [ValueError("no")]

    def flaky():
        call(path, "tried")
        if errors:
            raise errors.pop()
        return "done"

    try:
        job.step("flaky", flaky)
    except ValueError:
        return job.step("flaky", flaky)


def test_step_that_raised_can_be_called_again_in_the_attempt(path):
    assert run(try_again_at_once, path).return_value == "done"


def test_results_come_back_as_they_are():
    values = [None, 0, "", [], {}, [1, {"a": None}], "ä🙂", 1.5]
    jobs = [return_step.enqueue(json.dumps(value)) for value in values]
    drain()
    for job in jobs:
        job.refresh_from_db()
    assert [job.return_value for job in jobs] == [[value, value] for value in values]


@task(max_attempts=2)
def return_step(text: str):
    job = current_job()
    value = job.step("value", json.loads, text)
    first = job.step("first", lambda: value)
    if job.attempt == 1:
        raise Retry(after=0)
    return [first, value]


def test_result_is_what_a_retry_would_get_and_shares_no_object(path):
    job = run(return_enum)
    assert job.return_value == [True, "<class 'str'>"]


class Word(str):
    pass


@task
def return_enum():
    words = ["a"]
    result = current_job().step("word", lambda: [Word("a"), words])
    result[1].append("b")
    return [words == ["a"], str(type(result[0]))]


# With the effects in one transaction


@task(max_attempts=2, backoff=lambda failures: 0)
def charge_in_transaction(how: str):
    job = current_job()

    def charge():
        leave("charged")
        with session() as outside:
            assert outside.execute("SELECT * FROM pgjobs_step") == []
        if job.attempt == 1 and how == "fails":
            raise ValueError("in the step")
        if job.attempt == 1 and how == "fails at commit":
            leave("charged")
        return "paid"

    paid = job.step("charge", charge, atomic=True)
    if job.attempt == 1 and how == "later":
        raise ValueError("later")
    return paid


@pytest.mark.parametrize("how", ["", "fails", "fails at commit", "later"])
def test_effects_and_mark_of_an_atomic_step_commit_together(effects, how):
    job = run(charge_in_transaction, how)
    assert (job.status, job.return_value) == ("SUCCESSFUL", "paid")
    assert job.attempts == (2 if how else 1)
    assert effects() == ["charged"]
    attempt = 2 if how.startswith("fails") else 1
    assert stored() == [("charge", 1, attempt, "paid")]
    assert execute(
        "SELECT (SELECT xmin FROM step_effect) = (SELECT xmin FROM pgjobs_step)"
    ) == [(True,)]


@task
def catch_error_at_commit():
    job = current_job()
    lines = ["once", "twice", "twice"]

    def charge():
        while lines:
            leave(lines.pop())

    try:
        job.step("charge", charge, atomic=True)
    except IntegrityError:
        lines.append("alone")
        job.step("charge", charge, atomic=True)


def test_step_that_was_rolled_back_is_done_again_in_the_same_attempt(effects):
    assert run(catch_error_at_commit).status == "SUCCESSFUL"
    assert effects() == ["alone"]


# Fenced


def current(hand: Hand, claimed: claiming.ClaimedJob):
    """Return the running job as its own code would see it."""
    return running_job(
        id=claimed.id,
        attempt=claimed.attempt,
        life=claimed.life,
        lease_token=claimed.lease_token,
    )


@pytest.fixture
def stale():
    """A running job that was rescued and claimed by another worker."""
    first = Hand("first")
    tasks.noop.enqueue()
    job = current(first, first.claim_one())
    first.vanish()
    assert Hand("rescuer").rescue()
    assert Hand("another").claim_one().id == job.id
    return job


@pytest.mark.parametrize("atomic", [True, False])
def test_stale_worker_marks_no_step(effects, stale, atomic):
    with pytest.raises(LeaseLost, match="not this worker's any more"):
        stale.step("charge", leave, "charged", atomic=atomic)
    assert stored() == []
    assert effects() == ([] if atomic else ["charged"])


@pytest.mark.parametrize("lost_by", ["release", "delete", "fail"])
def test_step_of_a_job_that_is_not_ours_any_more_is_not_marked(effects, lost_by):
    hand, row = Hand(), tasks.noop.enqueue()
    claimed = hand.claim_one()
    if lost_by == "release":
        hand.set_back(claimed, "RELEASE")
    else:
        getattr(row, lost_by)()
    with pytest.raises(LeaseLost):
        current(hand, claimed).step("charge", leave, "charged", atomic=True)
    assert (stored(), effects()) == ([], [])


@pytest.mark.parametrize("atomic", [True, False])
def test_of_two_that_do_a_step_the_first_to_mark_it_decides(effects, atomic):
    """This happens when the lease of a worker runs out while it commits."""
    tasks.noop.enqueue()
    hand = Hand()
    claimed = hand.claim_one()
    ours, others = current(hand, claimed), current(hand, claimed)

    def charge():
        leave("ours")
        with in_thread(others.step, "charge", leave, "theirs", atomic=True) as future:
            assert future.result(timeout=60) == "theirs"
        return "ours"

    assert ours.step("charge", charge, atomic=atomic) == "theirs"
    assert effects() == (["theirs"] if atomic else ["ours", "theirs"])
    assert [step[3] for step in stored()] == ["theirs"]


def test_mark_does_not_hinder_acts_on_the_job(effects):
    hand, row = Hand(), tasks.noop.enqueue()
    job = current(hand, hand.claim_one())

    def cancel() -> bool:
        execute("SET lock_timeout = '5s'")
        return row.cancel()

    with transaction.atomic():
        job.step("charge", leave, "charged", atomic=True)
        with in_thread(cancel) as future:
            assert future.result(timeout=60)


# In transactions


@task(max_attempts=3)
def step_in_transaction(atomic: bool):
    with transaction.atomic():
        current_job().step("charge", leave, "charged", atomic=atomic)


@task(atomic=True, max_attempts=3, backoff=lambda failures: 0)
def step_in_atomic_task(atomic: bool):
    job = current_job()
    job.step("charge", leave, "charged", atomic=atomic)
    if job.attempt == 1:
        raise ValueError("later")


@pytest.mark.parametrize("job_task", [step_in_transaction, step_in_atomic_task])
def test_step_whose_mark_could_be_rolled_back_is_refused(effects, job_task):
    job = run(job_task, False)
    assert (job.status, job.attempts) == ("FAILED", 1)
    assert "Step 'charge' was called in a transaction" in job.reason
    assert effects() == []


def test_atomic_step_shares_the_transaction_around_it(effects):
    assert run(step_in_transaction, True).status == "SUCCESSFUL"
    assert effects() == ["charged"]
    assert len(stored()) == 1


def test_steps_of_an_atomic_task_are_rolled_back_with_it(effects):
    job = run(step_in_atomic_task, True)
    assert (job.status, job.attempts) == ("SUCCESSFUL", 2)
    assert effects() == ["charged"]
    assert stored() == [("charge", 1, 2, "charged")]


@task
def step_in_other_database(atomic: bool):
    def write_elsewhere():
        leave("here")
        with connections["other"].cursor() as cursor:
            cursor.execute("INSERT INTO step_effect VALUES ('there')")

    current_job().step("write", write_elsewhere, atomic=atomic)


@pytest.mark.usefixtures("other")
def test_only_a_plain_step_may_write_to_another_database(effects):
    job = run(step_in_other_database.using(max_attempts=1), True)
    assert "does not cover a write to database 'other'" in job.reason
    assert (effects(), stored()) == ([], [])
    assert run(step_in_other_database, False).status == "SUCCESSFUL"
    assert effects() == ["here", "there"]


# Async


@task(max_attempts=2, backoff=lambda failures: 0)
async def async_steps(path: str):
    job = current_job()

    async def charge(line: str):
        await asyncio.sleep(0)
        return call(path, line)

    results = [
        await job.astep("coroutine", charge, "coroutine"),
        await job.astep("function", call, path, line="function"),
    ]
    results += await asyncio.gather(
        *(job.astep(f"many {n}", charge, f"many {n}") for n in range(3))
    )
    if job.attempt == 1:
        raise ValueError("no")
    return [each["line"] for each in results]


def test_async_steps_are_done_once(path):
    job = run(async_steps, path)
    names = ["coroutine", "function", "many 0", "many 1", "many 2"]
    assert (job.status, job.attempts, job.return_value) == ("SUCCESSFUL", 2, names)
    assert sorted(tasks.lines(path)) == names
    assert sorted(name for name, *_ in stored()) == names


@task(max_attempts=2, backoff=lambda failures: 0)
async def async_atomic_step(in_coroutine: bool):
    job = current_job()

    async def charge():
        raise AssertionError("It must not run.")

    if in_coroutine:
        await job.astep("charge", charge, atomic=True)
    await job.astep("charge", leave, "charged", atomic=True)
    if job.attempt == 1:
        raise ValueError("no")


def test_function_can_be_an_atomic_step_of_an_async_task(effects):
    assert run(async_atomic_step, False).attempts == 2
    assert effects() == ["charged"]


def test_coroutine_cannot_be_an_atomic_step(effects):
    job = run(async_atomic_step, True)
    assert (job.status, job.attempts) == ("FAILED", 1)
    assert "Step 'charge' cannot be atomic" in job.reason


@task
async def async_step_in_transaction():
    await sync_to_async(transaction.set_autocommit)(False)

    async def charge():
        raise AssertionError("It must not run.")

    await current_job().astep("charge", charge)


def test_coroutine_is_no_step_of_a_transaction():
    job = run(async_step_in_transaction)
    assert (job.status, job.attempts) == ("FAILED", 1)
    assert "Step 'charge' was called in a transaction" in job.reason


@task(max_attempts=1)
async def step_on_the_loop(path: str):
    current_job().step("charge", call, path, "charged")


@task(max_attempts=1)
def step_of_a_coroutine_function():
    current_job().step("sleep", asyncio.sleep, 0)


def test_step_that_needs_await_says_so_before_anything_is_done(path):
    for job in (run(step_on_the_loop, path), run(step_of_a_coroutine_function)):
        assert job.status == "FAILED"
        assert "use `await current_job().astep(...)`" in job.reason
    assert tasks.lines(path) == []


# Bad input


@pytest.fixture
def job():
    hand = Hand()
    tasks.noop.enqueue()
    return current(hand, hand.claim_one())


@pytest.mark.parametrize(
    "name", ["", "x" * 201, "a\0b", "\ud800", 5, None, b"a", ["a"]]
)
def test_name_that_cannot_be_stored_is_refused(job, name):
    with pytest.raises(InvalidStep, match="name of"):
        job.step(name, pytest.fail)


@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_atomic_is_true_or_false(job, value):
    with pytest.raises(InvalidStep, match="atomic of step 'a' must be True or False"):
        job.step("a", pytest.fail, atomic=value)


def test_name_is_used_once_in_an_attempt(job):
    job.step("charge", int, "1")
    cure = r"'charge' was called before .*: f'charge-\{number\}'"
    with pytest.raises(InvalidStep, match=cure):
        job.step("charge", pytest.fail)
    with pytest.raises(InvalidStep, match="'outer' was called before"):
        job.step("outer", job.step, "outer", pytest.fail)


@pytest.mark.parametrize(
    ("value", "because"),
    [
        (object(), "cannot be stored: object is not JSON"),
        ((1, 2), "cannot be stored: tuple is not JSON"),
        (float("nan"), "cannot be stored: nan is not JSON"),
        ("a\0b", "cannot be stored: contains NUL"),
        ("x" * 64_000, "is 64002 bytes of JSON, and a step may keep 64000"),
    ],
)
@pytest.mark.parametrize("atomic", [True, False])
def test_result_that_cannot_be_stored_names_the_step(
    effects, job, value, because, atomic
):
    def charge():
        leave("charged")
        return value

    with pytest.raises(InvalidStep, match=f"The result of step 'charge' {because}"):
        job.step("charge", charge, atomic=atomic)
    assert stored() == []
    assert effects() == ([] if atomic else ["charged"])


def test_attempt_with_such_a_result_is_the_last_so_that_nothing_is_done_twice(path):
    job = run(return_odd_result, path)
    assert (job.status, job.attempts) == ("FAILED", 1)
    assert job.reason.startswith("The result of step 'odd' cannot be stored")
    assert attempts_of(job)[0][2] == Attempt.Outcome.FAILED


@task(max_attempts=5)
def return_odd_result(path: str):
    current_job().step("odd", lambda: call(path, "done") and object())


def test_number_of_steps_is_bounded(job, monkeypatch):
    monkeypatch.setattr(steps_module, "MOST_STEPS", 2)
    job.step("1", int)
    job.step("2", int)
    with pytest.raises(InvalidStep, match="Step '3' is one too many: a job may have 2"):
        job.step("3", pytest.fail)


def test_function_gets_all_arguments_but_those_of_step(job):
    with inside(job):

        def function(*args, **kwargs):
            return [list(args), kwargs]

        got = current_job().step("a", function, 1, 2, name="n", function="f", self="s")
    assert got == [[1, 2], {"name": "n", "function": "f", "self": "s"}]


# What it costs


def test_step_of_a_first_attempt_is_one_statement(job, django_assert_num_queries):
    with django_assert_num_queries(1):
        job.step("charge", int, "1")


def test_steps_done_before_cost_one_statement_together(job, django_assert_num_queries):
    for number in range(5):
        job.step(str(number), int, number)
    later = running_job(id=job.id, lease_token=job.lease_token, attempt=2)
    with django_assert_num_queries(1):
        assert [later.step(str(number), pytest.fail) for number in range(5)] == [
            0,
            1,
            2,
            3,
            4,
        ]


# Seen and forgotten


def test_steps_go_with_their_job(path):
    job = run(three_steps, path)
    execute("UPDATE pgjobs_job SET finished_at = finished_at - interval '8 days'")
    assert upkeep.prune(lambda *of: execute(*of), {"SUCCESSFUL": 3600.0}) == 1
    assert not Step.objects.exists()
    job = run(three_steps, path)
    execute("DELETE FROM pgjobs_job WHERE id = %(id)s", {"id": job.pk})
    assert not Step.objects.exists()
