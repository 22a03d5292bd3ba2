"""Async tasks: all of a worker's on one event loop, each in one slot."""

import asyncio
import threading

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, transaction
from django.utils import timezone, translation

from pgjobs import current_job, enqueue, enqueue_many, signals, task
from pgjobs.models import Job
from pgjobs.worker.slots import event_loop
from tests import tasks
from tests.processes import (
    PATIENCE,
    drain,
    run,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)

pytestmark = shared_queue


@task
async def sleep_async(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return threading.current_thread().name


@task(timeout=PATIENCE, max_attempts=1)
async def wait_for_all_others(path: str, number: int) -> str:
    tasks.write(path, "here")
    while len(tasks.lines(path)) < number:
        await asyncio.sleep(0.05)
    return threading.current_thread().name


def test_async_jobs_run_at_the_same_time_on_one_thread(tmp_path):
    path = str(tmp_path / "here")
    enqueue_many([wait_for_all_others.bind(path, 200) for _ in range(200)])
    loop = drain(slots=200)
    assert set(Job.objects.values_list("status", "return_value")) == {
        ("SUCCESSFUL", "pgjobs-event-loop")
    }
    assert loop.executor.threads.started == 0


@task
async def meet(path: str):
    tasks.write(path, "here")
    while len(tasks.lines(path)) < 3:
        await asyncio.sleep(0.01)


@pytest.mark.usefixtures("eager")
def test_async_job_takes_a_slot(tmp_path):
    path = str(tmp_path / "met")
    enqueue_many([meet.bind(path) for _ in range(3)])
    with running_worker(slots=2, prefetch=1) as loop:
        wait_for(lambda: len(tasks.lines(path)) == 2)
        assert len(loop.executor.waiting) == 1
        assert Job.objects.running().count() == 3
        tasks.write(path, "let go")
        wait_for_all("SUCCESSFUL")


@pytest.mark.usefixtures("eager")
def test_async_and_plain_jobs_alternate(tmp_path):
    path = str(tmp_path / "notes")
    enqueue_many([sleep_async.bind(0.001) for _ in range(30)])
    enqueue_many([tasks.note.bind(path, "x") for _ in range(30)])
    assert drain(slots=2, prefetch=7).finished == 60
    wait_for_all("SUCCESSFUL")
    assert len(tasks.lines(path)) == 30


# The job's own surroundings


@task
async def look_around() -> dict:
    found = {"async": current_job().id, "thread": await name_of_thread()}
    found["sync"] = await sync_to_async(lambda: current_job().id)()
    found["to_thread"] = await asyncio.to_thread(lambda: current_job().id)
    found["task"] = await asyncio.create_task(id_of_job())
    return found


@sync_to_async
def name_of_thread() -> str:
    return threading.current_thread().name


async def id_of_job() -> int:
    return current_job().id


def test_current_job_is_known_in_everything_that_an_async_job_calls():
    jobs = [enqueue(look_around) for _ in range(4)]
    drain(slots=4)
    for job in jobs:
        job.refresh_from_db()
        thread = job.return_value.pop("thread")
        assert thread.startswith("pgjobs-slot-")
        assert set(job.return_value.values()) == {job.pk}


@task
async def activate(language: str, path: str) -> list[str]:
    translation.activate(language)
    timezone.activate(language and "Europe/Berlin")
    tasks.write(path, language)
    while len(tasks.lines(path)) < 3:
        await asyncio.sleep(0.001)
    return [translation.get_language(), await sync_to_async(translation.get_language)()]


def test_language_of_an_async_job_is_its_own(tmp_path):
    path = str(tmp_path / "languages")
    languages = ["fr", "de", "es"]
    jobs = [enqueue(activate, each, path) for each in languages]
    drain(slots=3)
    for job, language in zip(jobs, languages, strict=True):
        job.refresh_from_db()
        assert job.return_value == [language, language]


@task
async def use_orm(path: str) -> dict:
    mine = await Job.objects.aget(pk=current_job().id)
    pid = await backend()
    tasks.write(path, str(pid))
    while len(tasks.lines(path)) < 4:  # all at the same time
        await asyncio.sleep(0.01)
    return {"status": mine.status, "same": await backend() == pid}


@sync_to_async
def backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


@pytest.mark.direct
def test_each_async_job_has_a_connection_of_its_own(tmp_path):
    path = str(tmp_path / "pids")
    jobs = [enqueue(use_orm, path) for _ in range(4)]
    loop = drain(slots=4)
    for job in jobs:
        job.refresh_from_db()
        assert job.return_value == {"status": "RUNNING", "same": True}
    assert len(set(tasks.lines(path))) == 4
    assert loop.executor.threads.started == 4


@task
async def leave_a_transaction_open():
    await sync_to_async(begin_and_delete)()


def begin_and_delete():
    transaction.atomic().__enter__()
    Job.objects.all().delete()


def test_connection_of_an_async_job_is_cleaned():
    first, second = enqueue(leave_a_transaction_open), enqueue(tasks.noop)
    drain(slots=1)
    assert {first.pk, second.pk} == set(Job.objects.values_list("pk", flat=True))
    wait_for_all("SUCCESSFUL")


def test_thread_of_an_async_job_serves_plain_jobs_afterwards():
    enqueue_many([look_around.bind(), tasks.noop.bind()] * 5)
    assert drain(slots=1).executor.threads.started == 1


def test_signal_before_an_async_job_may_use_the_database():
    started = []

    def receive(job, **kwargs):
        started.append((job.pk, job.status))

    signals.job_started.connect(receive)
    try:
        job = run(sleep_async, 0)
    finally:
        signals.job_started.disconnect(receive)
    assert started == [(job.pk, "RUNNING")]


@task
async def change_colours() -> list[int]:
    """Go from async to sync code and back, several times."""
    return await sync_to_async(sync_part)()


def sync_part() -> list[int]:
    return [current_job().id, *async_to_sync(async_part)()]


async def async_part() -> list[int]:
    return [current_job().id, await sync_to_async(lambda: current_job().id)()]


@task
def change_colours_from_sync() -> list[int]:
    return sync_part()


@pytest.mark.parametrize("kind", [change_colours, change_colours_from_sync])
def test_sync_and_async_code_may_call_each_other(kind):
    job = run(kind)
    assert job.return_value == [job.pk] * 3


# What may go wrong


class OwnError(BaseException):
    def __str__(self):
        raise RuntimeError("no message")


ERRORS = {
    each.__name__: each
    for each in (
        ValueError,
        SystemExit,
        KeyboardInterrupt,
        GeneratorExit,
        StopIteration,
        StopAsyncIteration,
        asyncio.CancelledError,
        OwnError,
    )
}
ERRORS["BaseExceptionGroup"] = lambda text: BaseExceptionGroup(text, [SystemExit()])
ERRORS["ExceptionGroup"] = lambda text: ExceptionGroup(text, [ValueError(text)])


@task(max_attempts=1)
async def raise_in_async(name: str):
    await asyncio.sleep(0)
    raise ERRORS[name]("no")


@task(max_attempts=1)
async def raise_in_called_code(name: str):
    await sync_to_async(raise_now)(name)


@task(max_attempts=1)
async def raise_in_thread(name: str):
    await asyncio.to_thread(raise_now, name)


def raise_now(name: str):
    raise ERRORS[name]("no")


RAISING = [raise_in_async, raise_in_called_code, raise_in_thread]


@pytest.mark.parametrize("raising", RAISING)
def test_whatever_an_async_task_raises_is_recorded(raising):
    jobs = {name: enqueue(raising, name) for name in ERRORS}
    last = enqueue(sleep_async, 0)
    drain(slots=2)
    for name, job in jobs.items():
        job.refresh_from_db()
        assert (job.status, job.failures) == ("FAILED", 1), name
    last.refresh_from_db()
    assert last.status == "SUCCESSFUL"


@task
async def leave_tasks_behind(path: str):
    leaving = asyncio.create_task(leave_the_loop())
    task = asyncio.create_task(note_end(path))
    await asyncio.sleep(0.01)
    assert leaving.done() and not task.done()


async def leave_the_loop():
    raise SystemExit("not only this task")


async def note_end(path: str):
    try:
        await asyncio.sleep(60)
    finally:
        tasks.write(path, "ended")


def test_tasks_that_a_job_leaves_behind_end_with_it(tmp_path):
    path = str(tmp_path / "ended")
    enqueue(leave_tasks_behind, path)
    with running_worker(slots=1):
        wait_for(lambda: tasks.lines(path) == ["ended"])
        job = enqueue(sleep_async, 0)
        wait_for_status(job, "SUCCESSFUL")
    wait_for_all("SUCCESSFUL")


@task
async def block(path: str):
    tasks.hold(path)


def test_blocking_job_delays_only_async_ones_and_is_reported(
    tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr(event_loop, "TICK", 0.02)
    monkeypatch.setattr(event_loop, "BLOCKED_SECONDS", 0.1)
    path = str(tmp_path / "blocks")
    with running_worker(slots=3):
        blocking = enqueue(block, path)
        wait_for(lambda: tasks.lines(path), "it blocks")
        other = enqueue(sleep_async, 0)
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
        wait_for(lambda: " has blocked the event loop for" in caplog.text)
        other.refresh_from_db()
        assert other.status == "RUNNING"
        tasks.let_go(path)
        wait_for_status(other, "SUCCESSFUL")
        wait_for(lambda: "attempt=1 blocked the event loop" in caplog.text)
    during, after = [each for each in caplog.messages if "the event loop" in each]
    assert f"Job id={blocking.pk} task=tests.block attempt=1 has blocked" in during
    assert "in wait_for_go" in during
    assert after.startswith(f"Job id={blocking.pk} task=tests.block attempt=1 blocked")


def test_patient_async_jobs_are_not_reported(caplog, monkeypatch):
    monkeypatch.setattr(event_loop, "TICK", 0.01)
    run(sleep_async, 0.7)
    assert "the event loop" not in caplog.text


def test_no_thread_is_left_of_a_worker_that_ran_async_jobs():
    before = threading.active_count()
    jobs = [look_around.bind() for _ in range(4)]
    enqueue_many(jobs)
    drain(slots=4)
    wait_for(lambda: threading.active_count() <= before, "its threads have ended")


@pytest.mark.parametrize("slots", [1, 5])
def test_many_async_jobs_are_each_recorded_once(slots, tmp_path):
    path = str(tmp_path / "ran")
    enqueue_many([note_async.bind(path, str(number)) for number in range(100)])
    drain(slots=slots)
    assert sorted(tasks.lines(path), key=int) == [str(each) for each in range(100)]


@task
async def note_async(path: str, line: str):
    await sync_to_async(tasks.write)(path, line)
