"""The threads that jobs run on: started when needed, used again, never too many."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor as FutureExecutor
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from time import monotonic

from django.db import connections

from ...exceptions import Interruption
from .cleaning import clean_connections
from .interruption import ThreadStopper, run_stoppable

STOP_SECONDS = 2.0  # for a thread to close its connections


class Threads:
    """As many threads as there was work at the same time.

    Each piece of work calls `free` before it announces its end. So a caller that then
    brings new work does not start a thread too many.

    Waking a thread takes longer than a short job. So a caller with work wakes only one
    thread, which wakes the next if there is more to do. A thread that has done its work
    takes another piece by itself. While there is work, an idle thread is being woken.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.works: deque[Callable[[], None]] = deque()
        self.calls: SimpleQueue[None] = SimpleQueue()
        self.is_called = False  # an idle thread was woken and has not come yet
        self.is_stopping = False
        self.alive: list[threading.Thread] = []
        self.working: set[threading.Thread] = set()
        self.started = 0

    def put(self, work: Callable[[], None]) -> None:
        """Let an idle or a new thread do the work at once."""
        with self.lock:
            self.works.append(work)
            if len(self.works) + len(self.working) > len(self.alive):
                self.start_another()
            self.call_another()

    def start_another(self) -> None:
        self.started += 1
        thread = threading.Thread(
            target=self.run, name=f"pgjobs-slot-{self.started}", daemon=True
        )
        self.alive.append(thread)
        thread.start()

    def call_another(self) -> None:
        has_idle = len(self.alive) > len(self.working)
        if self.works and has_idle and not self.is_called:
            self.is_called = True
            self.calls.put(None)

    def run(self) -> None:
        """Do one piece of work after the other: the body of each thread."""
        this = threading.current_thread()
        while (work := self.take_work(this)) is not None:
            work()
            if this not in self.alive:
                break  # replaced meanwhile
        connections.close_all()

    def take_work(self, this: threading.Thread) -> Callable[[], None] | None:
        """Return work as soon as there is any. None means that the thread must end."""
        while True:
            with self.lock:
                if self.works:
                    self.working.add(this)
                    work = self.works.popleft()
                    self.call_another()
                    return work
                if self.is_stopping:
                    return None
            self.calls.get()
            self.is_called = False

    def free(self) -> None:
        """Count the current thread as idle: its work is done, or almost."""
        with self.lock:
            self.working.discard(threading.current_thread())

    def replace(self, thread: threading.Thread | None) -> None:
        """Stop counting on a thread that does not return from its work."""
        with self.lock:
            if thread is not None and thread in self.working:
                self.working.remove(thread)
                self.alive.remove(thread)

    def stop(self) -> None:
        """End the threads, which must have no work any more."""
        self.is_stopping = True
        for _ in self.alive:
            self.calls.put(None)
        ends_at = monotonic() + STOP_SECONDS
        for thread in self.alive:
            thread.join(max(ends_at - monotonic(), 0))


class BorrowedThread(FutureExecutor):
    """The one thread on which the synchronous code of an async job runs.

    Django's connections belong to a thread, so all code of a job must run on the same
    one. The first call takes the thread; the job's end cleans it and gives it back.
    """

    def __init__(self, threads: Threads):
        self.threads = threads
        self.calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.stopper = ThreadStopper()
        self.is_taken = False
        self.thread: threading.Thread | None = None

    def submit(self, function, /, *args, **kwargs) -> Future:
        future: Future = Future()
        self.calls.put(partial(self.call, future, partial(function, *args, **kwargs)))
        if not self.is_taken:
            self.is_taken = True
            self.threads.put(self.serve)
        return future

    def serve(self) -> None:
        self.thread = threading.current_thread()
        while (call := self.calls.get()) is not None:
            call()
        clean_connections()
        self.threads.free()
        self.then()

    def call(self, future: Future, function: Callable) -> None:
        if not future.set_running_or_notify_cancel():
            return
        self.stopper = ThreadStopper()
        try:
            future.set_result(
                run_stoppable(self.stopper, partial(call_for_future, function))
            )
        except BaseException as error:  # noqa: BLE001  (the job gets it)
            future.set_exception(error)

    def stop(self, cause: type[Interruption]) -> None:
        """Raise in the call that runs now, if there is one."""
        self.stopper.stop(cause)

    def give_back(self, then: Callable[[], None]) -> None:
        """Return the thread after its last call, and then call `then`."""
        self.then = then
        if self.is_taken:
            self.calls.put(None)
        else:
            then()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: asgiref calls this too early, and on the event loop."""


def call_for_future(function: Callable, /, *args, **kwargs):
    """Call a function for an asyncio future.

    A future refuses a StopIteration, and its awaiter would wait for ever.
    """
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError("synchronous code raised StopIteration") from error
