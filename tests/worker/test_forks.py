"""A process that a job forks ends with the job's code: it is no second worker."""

import asyncio
import os
import sys
import time

from asgiref.sync import sync_to_async
from django.db import connection

from pgjobs import enqueue, task
from pgjobs.models import Job
from tests import tasks
from tests.processes import PATIENCE, shared_queue, wait_for, wait_for_status

pytestmark = shared_queue


def fork(path: str, end: str) -> int:
    """Fork; return the exit status of the child, which returns or raises."""
    child = os.fork()
    if child:
        return status_of(child)
    tasks.write(path, str(os.getpid()))
    if end == "raise":
        raise ValueError("in the child")
    if end == "exit":
        sys.exit(3)
    return 0


def status_of(child: int) -> int:
    """Wait for the child; kill one that lives on."""
    deadline = time.monotonic() + PATIENCE
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, 9)
            ended = os.waitpid(child, 0)
            break
        time.sleep(0.005)
    return os.waitstatus_to_exitcode(ended[1])


@task(max_attempts=1)
def fork_in_thread(path: str, end: str) -> int:
    with connection.cursor() as cursor:  # open when the child comes, and afterwards
        cursor.execute("SELECT 1")
        status = fork(path, end)
        cursor.execute("SELECT 1")
    return status


@task(max_attempts=1)
async def fork_on_event_loop(path: str, end: str) -> int:
    return fork(path, end)


@task(max_attempts=1)
async def fork_in_called_code(path: str, end: str) -> int:
    return await sync_to_async(fork)(path, end)


@task(max_attempts=1)
async def await_in_child(path: str, end: str) -> int:
    child = os.fork()
    if child:
        return await sync_to_async(status_of)(child)
    tasks.write(path, str(os.getpid()))
    await asyncio.sleep(0)
    return 0


@task(max_attempts=1)
async def wait_in_child(path: str, end: str) -> int:
    future = asyncio.get_running_loop().create_future()
    child = os.fork()
    if child:
        return await sync_to_async(status_of)(child)
    tasks.write(path, str(os.getpid()))
    await future  # nothing sets it
    return 0


@task(max_attempts=1)
async def fork_in_asyncio_task(path: str, end: str) -> int:
    async def fork_here() -> int:
        child = os.fork()
        if not child:
            tasks.write(path, str(os.getpid()))
        return child

    child = await asyncio.create_task(fork_here())
    return await sync_to_async(status_of)(child)


def check_end(worker, job, status: int) -> None:
    wait_for_status(job, "SUCCESSFUL", "FAILED")
    what = f"{job} {job.kwargs}: {job.reason}\n{worker.printed}"
    ended = job.status, job.return_value, job.attempts
    assert ended == ("SUCCESSFUL", status, 1), what


def test_forked_process_ends_with_the_code_of_its_job(start_worker, tmp_path):
    path = str(tmp_path / "children")
    expected = {"return": 0, "raise": 1, "exit": 3}
    kinds = [fork_in_thread, fork_on_event_loop, fork_in_called_code]
    worker = start_worker(
        "--concurrency", "2", settings={"TASK_MODULES": ["tests.worker.test_forks"]}
    )
    jobs = {
        enqueue(kind, path, end): status
        for kind in kinds
        for end, status in expected.items()
    }
    for job, status in jobs.items():
        check_end(worker, job, status)
    # Alone: in its child, another coroutine might come to its end before it.
    for kind in [await_in_child, wait_in_child, fork_in_asyncio_task]:
        check_end(worker, enqueue(kind, path, "return"), 1)
    children = tasks.lines(path)
    assert len(set(children)) == len(children) == len(jobs) + 3
    assert "ValueError: in the child" in worker.printed
    assert "cannot await on the event loop of its worker" in worker.printed
    # Neither the connections nor the books of the worker have suffered.
    enqueue(tasks.count_jobs)
    wait_for(lambda: not Job.objects.exclude(status="SUCCESSFUL").exists())
    assert worker.stop() == 0
