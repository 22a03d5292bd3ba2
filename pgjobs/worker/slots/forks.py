"""A process that a job forks runs the job's own code and nothing else."""

import asyncio
import os
import sys
import threading
import traceback

forks = 0  # how often the process was forked since it started


class OfThread(threading.local):
    loop: asyncio.AbstractEventLoop | None = None  # the worker's, on its own thread


of_thread = OfThread()


def remember_fork() -> None:
    """Count it; let the child's copy of an event loop do nothing but end the process.

    It turns when the coroutine that has forked awaits something. It would wait for
    ever, or run the other coroutines of the worker a second time.
    """
    global forks
    forks += 1
    if of_thread.loop:
        message = "A forked process cannot await on the event loop of its worker."
        of_thread.loop.call_soon(end_process, RuntimeError(message))


os.register_at_fork(after_in_child=remember_fork)


class NoSecondWorker:
    """Runs a block of the job's code; a process that the block forks ends with it.

    The child has a copy of the worker's thread and connections. If it went on, it would
    run jobs and write to the database in the worker's name.
    """

    def __enter__(self) -> None:
        self.forks = forks  # os.getpid() would be a system call for each job

    def __exit__(self, kind, error: BaseException | None, frames) -> None:
        if forks != self.forks:
            end_process(error)


def end_process(error: BaseException | None) -> None:
    """End a forked process as Python would, but touch nothing that it inherited."""
    status = 0
    if isinstance(error, SystemExit) and (error.code is None or error.code == 0):
        pass
    elif isinstance(error, SystemExit) and isinstance(error.code, int):
        status = error.code & 0xFF
    elif error is not None:
        traceback.print_exception(error)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
