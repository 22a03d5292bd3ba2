"""run_jobs: the queue's work inside of a test's transaction."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import DataError, IntegrityError, connection, transaction
from django.utils import timezone

from pgjobs import (
    Cancel,
    Fail,
    Retry,
    Snooze,
    chain,
    current_job,
    enqueue,
    group,
    publish,
    task,
)
from pgjobs.exceptions import JobFailed
from pgjobs.features.testing import running
from pgjobs.models import Job, Queue, Worker
from pgjobs.testing import run_jobs
from tests import tasks
from tests.support import dependent_tasks

pytestmark = pytest.mark.django_db


def ran(**options) -> list[str]:
    """Run jobs; return their arguments."""
    return [job.kwargs["value"] for job in run_jobs(**options)]


def test_it_runs_what_is_ready_and_returns_the_jobs():
    job = enqueue(tasks.add, 2, b=3)
    assert run_jobs() == [job]
    job.refresh_from_db()
    assert (job.status, job.return_value, job.attempts) == ("SUCCESSFUL", 5, 1)
    assert run_jobs() == []
    assert not Worker.objects.exists()


def test_jobs_run_in_the_order_of_a_worker():
    enqueue(tasks.echo, "low")
    enqueue(tasks.echo.using(priority=5), "high")
    enqueue(tasks.echo, "last")
    assert ran() == ["high", "low", "last"]


def test_jobs_that_jobs_enqueue_run_as_well():
    enqueue(enqueue_one_less, 3)
    assert [job.kwargs["more"] for job in run_jobs()] == [3, 2, 1, 0]


@task
def enqueue_one_less(more: int):
    if more:
        enqueue_one_less.enqueue(more - 1)


def test_only_the_queues_that_are_named_are_served():
    enqueue(tasks.echo, "here")
    mail = enqueue(tasks.echo.using(queue_name="mail", lock="door"), "mail")
    enqueue(tasks.echo.using(queue_name="slow"), "slow")
    assert run_jobs(queues="mail") == [mail]
    assert ran(queues=["default", "mail"]) == ["here"]


def test_error_of_a_task_is_raised_after_it_was_recorded():
    job = enqueue(tasks.fail_with, "no")
    with pytest.raises(ValueError, match=r"^no$"):
        run_jobs()
    job.refresh_from_db()
    assert (job.status, job.reason) == ("FAILED", "ValueError: no")
    assert not Worker.objects.exists()


def test_errors_of_tasks_can_be_left_to_the_jobs():
    enqueue(tasks.fail_with, "no")
    enqueue(tasks.noop)
    assert [job.status for job in run_jobs(raise_errors=False)] == [
        "FAILED",
        "SUCCESSFUL",
    ]


@task(max_attempts=3)
def fail_until(number: int):
    if current_job().attempt < number:
        raise ConnectionError("not yet")
    return current_job().attempt


def test_retry_waits_for_its_backoff_unless_retries_are_wanted():
    job = enqueue(fail_until, 2)
    with pytest.raises(ConnectionError):
        run_jobs()
    assert run_jobs() == []
    assert [each.status for each in run_jobs(until=timedelta(hours=1))] == [
        "SUCCESSFUL"
    ]
    other = enqueue(fail_until, 3)
    assert run_jobs(with_retries=True) == [other] * 3
    job.refresh_from_db(), other.refresh_from_db()
    assert (job.return_value, other.return_value) == (2, 3)


def test_with_retries_the_last_error_is_raised():
    job = enqueue(fail_until, 9)
    with pytest.raises(ConnectionError):
        run_jobs(with_retries=True)
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("FAILED", 3)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Retry(after=60), "SCHEDULED"),
        (Snooze(60), "SCHEDULED"),
        (Cancel("no need"), "CANCELLED"),
        (Fail("hopeless"), "FAILED"),
    ],
)
def test_what_a_task_raises_to_steer_its_job_is_not_raised(monkeypatch, error, status):
    monkeypatch.setattr(tasks.noop, "function", lambda: throw(error))
    enqueue(tasks.noop)
    assert [job.status for job in run_jobs()] == [status]


def throw(error):
    raise error


def test_job_without_a_task_is_an_error():
    Job.objects.create(task="gone.away")
    with pytest.raises(JobFailed, match=r"gone\.away\): No task registered as"):
        run_jobs()


def test_task_that_enqueues_itself_for_ever_is_refused(monkeypatch):
    monkeypatch.setattr(running, "MOST_RUNS", 20)
    enqueue(again)
    with pytest.raises(RuntimeError, match=r"run 20 jobs.*again #\d+.*limit="):
        run_jobs()
    assert not Job.objects.running().exists()


@task
def again():
    again.enqueue()


def test_limit_ends_the_run():
    enqueue(again)
    assert len(run_jobs(limit=3)) == 3
    assert Job.objects.ready().count() == 1


# Inside of the transaction


def test_database_error_of_a_job_leaves_the_transaction_usable():
    Group.objects.create(name="before")
    enqueue(insert_twice, "x")
    with pytest.raises(IntegrityError):
        run_jobs()
    assert list(Group.objects.values_list("name", flat=True)) == ["before"]


def test_error_of_plain_sql_leaves_the_transaction_usable():
    enqueue(divide_by_zero)
    with pytest.raises(DataError):
        run_jobs()
    assert Job.objects.get().reason.startswith("DataError: division by zero")


@task(max_attempts=1)
def divide_by_zero():
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


@task(max_attempts=1)
def insert_twice(name: str):
    Group.objects.create(name=name)
    Group.objects.create(name=name)


def test_job_that_fails_keeps_what_it_wrote_as_without_a_transaction():
    enqueue(insert_then_fail, "kept")
    enqueue(insert_and_fail_atomically, "lost")
    run_jobs(raise_errors=False)
    assert list(Group.objects.values_list("name", flat=True)) == ["kept"]


@task(max_attempts=1)
def insert_then_fail(name: str):
    Group.objects.create(name=name)
    raise ValueError


@task(max_attempts=1, atomic=True)
def insert_and_fail_atomically(name: str):
    Group.objects.create(name=name)
    tasks.noop.enqueue()
    raise ValueError


def test_atomic_job_that_was_cancelled_is_rolled_back():
    job = enqueue(cancel_itself)
    run_jobs()
    job.refresh_from_db()
    assert job.status == "CANCELLED"
    assert not Group.objects.exists()


@task(atomic=True)
def cancel_itself():
    Group.objects.create(name="lost")
    Job.objects.get(pk=current_job().id).cancel()


def test_job_may_open_a_durable_transaction():
    enqueue(open_durable)
    assert [job.status for job in run_jobs()] == ["SUCCESSFUL"]


@task
def open_durable():
    with transaction.atomic(durable=True):
        Group.objects.create(name="x")


def test_what_jobs_do_on_commit_is_done_and_that_of_the_test_is_not():
    called = []
    transaction.on_commit(lambda: called.append("test"))
    enqueue(enqueue_on_commit)
    assert [job.task for job in run_jobs()] == ["tests.enqueue_on_commit", "tests.noop"]
    assert called == []


@task
def enqueue_on_commit():
    with transaction.atomic():
        transaction.on_commit(tasks.noop.enqueue)


def test_steps_progress_and_log_are_kept():
    job = enqueue(report_and_step)
    with pytest.raises(ConnectionError):
        run_jobs()
    run_jobs(scheduled=True)
    job.refresh_from_db()
    assert job.return_value == ["charged in attempt 1", 2]
    progress = job.progress
    assert (progress.done, progress.total) == (2, 3)
    assert progress.log.count("look") == 2


@task
def report_and_step():
    job = current_job()
    job.log("look")
    job.progress(job.attempt, 3)
    charged = job.step("charge", lambda: f"charged in attempt {job.attempt}")
    if job.attempt == 1:
        raise ConnectionError
    return [charged, job.attempt]


def test_step_in_a_transaction_of_the_jobs_own_is_refused():
    enqueue(step_in_own_block)
    with pytest.raises(Fail, match="was called in a transaction"):
        run_jobs()


@task
def step_in_own_block():
    with transaction.atomic():
        current_job().step("charge", int)


def test_async_task_uses_the_connection_of_the_test():
    Job.objects.create(task="gone.away", status="CANCELLED", finished_at=timezone.now())
    job = enqueue(tasks.count_jobs_async)
    run_jobs()
    job.refresh_from_db()
    assert job.return_value == 2


def test_language_of_a_job_is_its_own():
    from django.utils import translation

    enqueue(speak_german)
    run_jobs()
    assert translation.get_language() != "de"


@task
def speak_german():
    from django.utils import translation

    translation.activate("de")


# What decides


def test_job_waits_for_the_lock_that_a_failed_attempt_keeps():
    first = enqueue(fail_until.using(lock="door"), 2)
    second = enqueue(tasks.echo.using(lock="door"), "second")
    run_jobs(raise_errors=False)
    assert [job.status for job in (fresh(first), fresh(second))] == [
        "SCHEDULED",
        "WAITING",
    ]
    assert run_jobs(scheduled=True) == [first, second]


def fresh(job: Job) -> Job:
    job.refresh_from_db()
    return job


def test_chains_and_groups_run_in_their_order():
    enqueue(
        chain(
            tasks.echo.bind("first"),
            group([tasks.echo.bind("a"), tasks.echo.bind("b")]),
            tasks.echo.bind("last"),
        )
    )
    assert ran() == ["first", "a", "b", "last"]


def test_followers_of_a_failed_job_are_cancelled():
    _, follower = enqueue(chain(tasks.fail_with.bind("no"), tasks.noop.bind()))
    run_jobs(raise_errors=False)
    assert fresh(follower).status == "CANCELLED"


def test_rate_lets_time_pass():
    slow = tasks.echo.using(rate="1/hour", rate_key="slow")
    for number in range(3):
        slow.enqueue(number)
    assert ran() == [0]
    assert ran(until=timedelta(minutes=61)) == [1]
    assert ran(scheduled=True) == [2]


def test_paused_queue_stays_as_it_is():
    Queue.objects.create(name="mail", paused_at=timezone.now())
    enqueue(tasks.echo.using(queue_name="mail"), "mail")
    enqueue(tasks.echo.using(queue_name="mail", lock="door"), "mail")
    assert run_jobs() == []


def test_dependencies_are_enqueued_and_run_first(tmp_path):
    path = str(tmp_path / "notes")
    enqueue(dependent_tasks.send_client, path, 5)
    assert [job.task.partition(".")[2] for job in run_jobs()] == [
        "refresh_client",
        "generate_client",
        "send_client",
    ]
    enqueue(dependent_tasks.send_client, path, 5)
    assert len(run_jobs()) == 1
    # Both have succeeded too long ago by then.
    enqueue(dependent_tasks.send_client.using(run_after=timedelta(hours=3)), path, 5)
    assert len(run_jobs(scheduled=True)) == 3


def test_events_are_delivered(stored_handlers):
    publish("tle.refreshed", {"satellite_id": 5})
    jobs = run_jobs(raise_errors=False)
    assert jobs
    assert {job.delivery.event.name for job in jobs} == {"tle.refreshed"}


# Time


def test_scheduled_jobs_run_when_their_time_has_come():
    now = timezone.now()
    third = enqueue(tasks.echo.using(run_after=timedelta(days=3)), "third day")
    first = enqueue(tasks.echo.using(run_after=now + timedelta(days=1)), "first day")
    assert ran() == []
    assert ran(until=timedelta(hours=23)) == []
    assert ran(until=now + timedelta(days=2)) == ["first day"]
    assert fresh(third).run_after - third.enqueued_at == timedelta(days=3)
    assert fresh(first).finished_at - now > timedelta(days=1)
    assert ran(scheduled=True) == ["third day"]


def test_time_passes_for_what_jobs_enqueue(monkeypatch):
    monkeypatch.setattr(running, "MOST_RUNS", 20)
    enqueue(once_a_day)
    assert len(run_jobs(until=timedelta(days=3, hours=1))) == 4
    with pytest.raises(RuntimeError, match="run 20 jobs"):
        run_jobs(scheduled=True)


@task
def once_a_day():
    once_a_day.using(run_after=timedelta(days=1)).enqueue()


def test_time_passes_only_for_the_queues_that_are_named():
    other = enqueue(tasks.echo.using(run_after=timedelta(days=1)), "other")
    mail = tasks.echo.using(queue_name="mail", run_after=timedelta(days=2))
    mail.enqueue("mail")
    assert ran(queues="mail", scheduled=True) == ["mail"]
    assert fresh(other).status == "SCHEDULED"


def test_job_that_is_not_started_in_time_expires_meanwhile():
    job = enqueue(
        tasks.echo.using(after=enqueue(tasks.snooze_a_day), expires=timedelta(hours=1)),
        "late",
    )
    run_jobs(until=timedelta(days=2))
    assert fresh(job).status == "CANCELLED"


def test_time_is_back_in_place_after_an_error():
    later = enqueue(tasks.echo.using(run_after=timedelta(days=5)), "later")
    enqueue(tasks.fail_with.using(run_after=timedelta(days=1)), "no")
    with pytest.raises(ValueError, match="no"):
        run_jobs(scheduled=True)
    assert fresh(later).run_after - later.enqueued_at == timedelta(days=5)


def test_naive_datetime_is_refused():
    with pytest.raises(ValueError, match="until must be an aware datetime"):
        run_jobs(until=timezone.now().replace(tzinfo=None))


# Outside of a transaction


@pytest.mark.django_db(transaction=True, available_apps=["pgjobs", "tests"])
def test_it_runs_without_a_transaction_too():
    slow = tasks.echo.using(rate="1/hour", rate_key="slow", lock="door")
    slow.enqueue("first")
    slow.enqueue("second")
    assert not connection.in_atomic_block
    assert ran(scheduled=True) == ["first", "second"]
    assert not Worker.objects.exists()
