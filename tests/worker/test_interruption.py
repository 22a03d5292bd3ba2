"""Raising in another thread: never twice, and never after the body."""

import random
import sys
import threading
import time

import pytest

from pgjobs.exceptions import Interruption, TaskCancelled, TaskTimeout
from pgjobs.worker.slots.interruption import ThreadStopper, run_stoppable


def spin(seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pass
    return "returned"


def outcome_of(stopper: ThreadStopper, body) -> str:
    try:
        return run_stoppable(stopper, body)
    except Interruption as error:
        return type(error).__name__


def stopped_after(seconds: float, stopper: ThreadStopper, *causes) -> threading.Thread:
    def stop():
        spin(seconds)
        for cause in causes:
            stopper.stop(cause)

    thread = threading.Thread(target=stop)
    thread.start()
    return thread


def test_body_is_stopped_once_and_for_the_first_reason():
    stopper = ThreadStopper()
    thread = stopped_after(0.01, stopper, TaskCancelled, TaskTimeout)
    assert outcome_of(stopper, lambda: spin(20)) == "TaskCancelled"
    thread.join()
    assert spin(0.02) == "returned"


def test_body_that_is_stopped_before_it_begins_does_not_begin():
    stopper = ThreadStopper()
    stopper.stop(TaskCancelled)
    assert outcome_of(stopper, lambda: pytest.fail("it began")) == "TaskCancelled"


def test_body_that_has_ended_is_not_stopped():
    stopper = ThreadStopper()
    assert outcome_of(stopper, lambda: "returned") == "returned"
    stopper.stop(TaskCancelled)
    assert spin(0.01) == "returned"


@pytest.fixture
def restless_threads():
    """Threads alternate so often that any two of their steps may meet."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.00001)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless_threads")
def test_exception_that_comes_with_the_end_never_hits_what_follows():
    """Thousands of bodies end as they are stopped; each has one outcome."""
    seen = set()
    deadline = time.monotonic() + 1
    number = 0
    while time.monotonic() < deadline or len(seen) < 2:
        assert time.monotonic() < deadline + 20, seen
        number += 1
        stopper = ThreadStopper()
        seconds = random.uniform(0, 0.0004)
        thread = stopped_after(random.uniform(0, 0.0002), stopper, TaskTimeout)
        try:
            seen.add(outcome_of(stopper, lambda seconds=seconds: spin(seconds)))
            spin(0.0005)
            thread.join()
            spin(0.0001)
        except Interruption:
            pytest.fail(f"body {number} ended, and the exception came afterwards")
    assert seen == {"returned", "TaskTimeout"}


@pytest.mark.parametrize("where", ["before", "within", "after"])
def test_exception_that_hits_the_end_itself_leaves_the_outcome(where, monkeypatch):
    """What the body returned stands, wherever the exception comes."""
    stopper = ThreadStopper()
    close = stopper.close
    calls = []

    def close_and_be_hit():
        calls.append(where)
        if len(calls) == 1:
            stopped_after(0, stopper, TaskTimeout).join()
            if where == "before":
                spin(20)  # until it is hit
        close()
        if where == "after":
            spin(0.05)

    monkeypatch.setattr(stopper, "close", close_and_be_hit)
    assert outcome_of(stopper, lambda: "returned") == "returned"
    assert spin(0.02) == "returned"
    assert stopper.is_closed
