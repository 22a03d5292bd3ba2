"""Imported as a task module: jobs that leave something behind, or fork."""

import multiprocessing
import os
import signal
import threading
import time

from pgjobs import task
from tests.tasks import write


def square(number: int) -> int:
    return number * number


@task
def square_in_pool(numbers: list[int]) -> list[int]:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(square, numbers)


@task
def end_child_by_signal() -> int:
    """Fork a child that lives until SIGTERM; return how it ended."""
    child = os.fork()
    if not child:
        time.sleep(600)
        os._exit(0)
    os.kill(child, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@task
def leave_thread():
    """Leave a thread that Python would wait for."""
    threading.Thread(target=time.sleep, args=[600], daemon=False).start()


@task(max_crashes=1)
def leave_child(path: str):
    """Fork a child, and take the worker's process along."""
    if not (child := os.fork()):
        time.sleep(600)
        os._exit(0)
    write(path, str(child))
    os.kill(os.getpid(), signal.SIGKILL)
