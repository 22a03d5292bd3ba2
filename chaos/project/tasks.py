"""The tasks. Each job has a mark, by which the producers' journal knows it.

What a job did it writes into chaos.effect; an atomic job in its own transaction.
Where a task is named below, `checker/expectations.py` says how its jobs must end.
"""

import multiprocessing
import os
import time
from contextlib import suppress
from datetime import timedelta
from typing import TypedDict

from django.db import DatabaseError, connection, transaction

from pgjobs import (
    Chunk,
    constant,
    current_job,
    enqueue,
    publish,
    schedule,
    subscribe,
    task,
)
from pgjobs.models import Job

INSERT_EFFECT = """
INSERT INTO chaos.effect (job_id, life, attempt, what) VALUES (%s, %s, %s, %s)
"""
INSERT_GIFT = "INSERT INTO chaos.gift (mark, value) VALUES (%s, %s)"
LONGEST_WAIT, SHORTEST_WAIT = 25.0, 1.0  # seconds
MOST_MEMORY = 64_000_000  # bytes that a greedy job takes for a moment


def note(what: str) -> dict:
    """Write down that this attempt has done something; return what tells attempts."""
    job = current_job()
    life = int(job.key.rpartition(":")[2])
    with connection.cursor() as cursor:
        cursor.execute(INSERT_EFFECT, [job.id, life, job.attempt, what])
    return {"attempt": job.attempt}


def give(mark: str, value: str) -> None:
    """Write down, in the transaction that gives it, what a job that waits must take."""
    with connection.cursor() as cursor:
        cursor.execute(INSERT_GIFT, [mark, value])


# Innocent ones. A worker may be lost under them any number of times.


@task(max_crashes=1_000)
def work(mark: str, seconds: float = 0.0) -> dict:
    attempt = note("ran")
    time.sleep(seconds)
    return attempt


@task(max_crashes=1_000, keep="failed")
def brief(mark: str, seconds: float = 0.0) -> dict:
    """Be deleted by the worker as soon as nothing needs the row."""
    attempt = note("ran")
    time.sleep(seconds)
    return attempt


class Shared(TypedDict):
    mark: str
    seconds: float
    is_poison: bool


@task(
    max_crashes=1_000,
    max_attempts=1_000,
    backoff=constant(0.2),
    chunk=8,
    chunk_wait=0.5,
    on_chunk_error="bisect",
)
def together(calls: Chunk[Shared]) -> list[dict]:
    """Write down of each job of the call that it ran, and in the end that it is done.

    A bad one spoils the first attempt of all that are called with it.
    """
    note_all(calls, "ran")
    if any(call.args["is_poison"] and call.job.attempt == 1 for call in calls):
        raise ValueError("one of these is bad")
    time.sleep(max(call.args["seconds"] for call in calls))
    # Whether it was stored or not, this call has succeeded.
    with suppress(DatabaseError):
        note_all(calls, "done")
    return [{"attempt": call.job.attempt} for call in calls]


def note_all(calls: Chunk[Shared], what: str) -> None:
    rows = [(call.job.id, call.job.life, call.job.attempt, what) for call in calls]
    with connection.cursor() as cursor:
        cursor.executemany(INSERT_EFFECT, rows)


@task(max_crashes=1_000)
def gives(mark: str, seconds: float = 0.0) -> dict:
    attempt = note("ran")
    time.sleep(seconds)
    return {**attempt, "mark": mark}


@task(max_crashes=1_000, max_attempts=1)
def receives(mark: str, expected: list[str], given: list[dict | None]) -> dict:
    """Fail unless it gets what the jobs before have returned, in their order.

    A job to which an operator gave a success has returned nothing.
    """
    attempt = note("ran")
    assert len(given) == len(expected), given
    for value, source in zip(given, expected, strict=True):
        assert value is None or value["mark"] == source, given
    return attempt


@task(max_crashes=1_000, queue_name="patient", priority=-100)
def patient(mark: str) -> dict:
    return note("ran")


@task(max_crashes=1_000)
async def work_async(mark: str) -> dict:
    from asgiref.sync import sync_to_async

    return await sync_to_async(note)("ran")


@task(atomic=True, max_crashes=1_000, max_attempts=1_000, backoff=constant(0.2))
def settle(mark: str, seconds: float = 0.0) -> dict:
    """Have an effect and a child, both of them once."""
    attempt = note("settled")
    time.sleep(seconds)
    enqueue(work, f"{mark}/child")
    return attempt


@task(max_crashes=1_000, max_attempts=1_000, backoff=constant(0.2))
def flaky(mark: str, seconds: float = 0.0) -> dict:
    attempt = note("ran")
    time.sleep(seconds)
    if current_job().attempt == 1:
        raise ValueError("the first attempt always fails")
    return attempt


@task(max_crashes=1_000, lock="{key}")
def in_order(mark: str, key: str, seconds: float = 0.0) -> dict:
    attempt = note("ran")
    time.sleep(seconds)
    return attempt


@task(max_crashes=1_000, lock="{key}", lock_mode="mutex")
def alone(mark: str, key: str, seconds: float = 0.0) -> dict:
    attempt = note("ran")
    time.sleep(seconds)
    return attempt


@task(max_crashes=1_000, max_running=2, limit_key="{key}")
def few(mark: str, key: str, seconds: float = 0.0) -> dict:
    attempt = note("ran")
    time.sleep(seconds)
    return attempt


@task(max_crashes=1_000, max_running=1, limit_key="{key}")
def strict(mark: str, key: str, seconds: float = 0.0) -> dict:
    """Run alone beside jobs of the same key that allow more."""
    attempt = note("ran")
    time.sleep(seconds)
    return attempt


@task(max_crashes=1_000, max_running=4, limit_key="{key}")
def lax(mark: str, key: str, seconds: float = 0.0) -> dict:
    attempt = note("ran")
    time.sleep(seconds)
    return attempt


@task(max_crashes=1_000, max_running=1, limit_key="crowd")
def crowded(mark: str, seconds: float = 0.0) -> dict:
    """Share one key with jobs of very many queues."""
    attempt = note("ran")
    time.sleep(seconds)
    return attempt


@task(max_crashes=1_000, queue_name="narrow")
def narrow(mark: str, seconds: float = 0.0) -> dict:
    attempt = note("ran")
    time.sleep(seconds)
    return attempt


@task(max_crashes=1_000, process_units=350)
def heavy(mark: str, seconds: float = 0.0) -> dict:
    attempt = note("ran")
    time.sleep(seconds)
    return attempt


@task(max_crashes=1_000, unique=("key",), on_conflict="skip")
def single(mark: str, key: str, seconds: float = 0.0) -> dict:
    attempt = note("ran")
    time.sleep(seconds)
    return attempt


@task(max_crashes=1_000, max_attempts=1_000, backoff=constant(0.2))
def stepwise(mark: str) -> dict:
    job = current_job()
    job.step("once", note, "step", atomic=True)
    return note("ran")


@task(every=timedelta(seconds=2), overlap="allow", catch_up="all", max_crashes=1_000)
def tick() -> dict:
    return note("ran")


@subscribe("chaos.happened")
@task(max_crashes=1_000, max_attempts=1_000)
def first_handler(mark: str) -> dict:
    return note("ran")


@subscribe("chaos.*", ordered_by="aggregate")
@task(max_crashes=1_000, max_attempts=1_000)
def ordered_handler(mark: str) -> dict:
    return note("ran")


@task(max_crashes=1_000, queue_name="swift")
def swift(mark: str) -> dict:
    """Do nothing, so quickly that a worker may hold many of these jobs."""
    return {"attempt": current_job().attempt}


@task(max_crashes=1_000, rate="10/second", rate_key="{key}")
def paced(mark: str, key: str) -> dict:
    return note("ran")


@task(max_crashes=1_000, rate="1/second", rate_key="{key}")
def rare(mark: str, key: str) -> dict:
    """Start seldom beside jobs of the same key that may start often."""
    return note("ran")


@task(max_crashes=1_000, rate="10/second", burst=2, rate_key="{key}")
def evenly(mark: str, key: str) -> dict:
    return note("ran")


@task(
    max_crashes=1_000,
    queue_name="follow",
    unique_key="follow",
    on_conflict="raise",
    lock="follow",
)
def follower(job_id: int) -> dict:
    attempt = note("ran")
    time.sleep(0.3)
    return attempt


@task(max_crashes=1_000, on_success=follower)
def leader(mark: str) -> dict:
    """End with a follow-up whose key is mostly taken, so that it is not made."""
    return note("ran")


@task(max_crashes=1_000)
def conclude(mark: str) -> dict:
    """Come after a batch of which one job has failed: it never runs."""
    return note("ran")


@task(every=timedelta(seconds=4), overlap="skip", catch_up="all", max_crashes=1_000)
def chime() -> dict:
    """Run alone, and lose no tick if its worker goes away in the middle."""
    attempt = note("ran")
    time.sleep(1)
    return attempt


@task(max_crashes=1_000)
def knell() -> dict:
    return note("ran")


# As workers with modules of their own do, only some declare this schedule.
if os.environ.get("CHAOS_DECLARES") == "more":
    schedule(every=timedelta(seconds=2), overlap="allow", catch_up="all")(knell)


@task(
    max_crashes=1_000,
    max_attempts=1_000,
    backoff=constant(0.2),
    timeout=20,
    queue_name="pools",
)
def pool(mark: str) -> dict:
    """Fork processes, and end them with SIGTERM, as a pool does with some."""
    attempt = note("ran")
    forking = multiprocessing.get_context("fork")
    with forking.Pool(2) as processes:
        processes.map(abs, range(4))
    sleeper = forking.Process(target=time.sleep, args=[60])
    sleeper.start()
    sleeper.terminate()
    sleeper.join()
    return attempt


# Those that wait. Each stretch writes down what the life has taken.


@task(
    max_crashes=1_000,
    max_attempts=1_000,
    backoff=constant(0.2),
    waits_for=("waits.happened",),
)
def waits(mark: str, is_last: bool = False) -> dict:
    """Sleep; take an answer, some events and the end of a job; go on as another.

    There may be no third event. What a wait has taken, the one behind it must not take.

    That one takes an answer that came too late for the first, and ends.
    """
    job = current_job()
    job.step("once", note, "step", atomic=True)
    job.sleep("nap", 0.2)
    timeout = SHORTEST_WAIT if is_last else LONGEST_WAIT
    answer = job.wait_for("answer", str, timeout=timeout)
    attempt = note(f"took answer {answer}")
    if is_last:
        return attempt
    times = {"first": LONGEST_WAIT, "second": LONGEST_WAIT, "third": SHORTEST_WAIT}
    for name, timeout in times.items():
        event = job.wait_for_event(
            "waits.happened", aggregate_id=mark, name=name, timeout=timeout
        )
        note(f"took {name} {event and event.id}")
    child = job.step("child", enqueue, work, f"{mark}/child", atomic=True)
    job.wait_for_jobs("children", [child], timeout=LONGEST_WAIT)
    job.continue_as(mark, is_last=True)


@task(max_crashes=1_000)
def answers(mark: str, job_id: int, waiting: str) -> dict:
    """Answer a job that waits, and publish what it waits for, at each attempt."""
    attempt = note("ran")
    value = f"{current_job().key}/{current_job().attempt}"
    with transaction.atomic():
        if Job.objects.get(pk=job_id).answer("answer", value):
            give(waiting, f"answer {value}")
    if job_id % 2:  # so that the job has asked, and its claim takes the event
        time.sleep(0.5)
    publish("waits.happened", aggregate_id=waiting)
    return attempt


# An innocent one with as many lives as most tasks have.


@task
def bystander(mark: str, seconds: float = 0.0) -> dict:
    attempt = note("ran")
    time.sleep(seconds)
    return attempt


# Hostile ones


@task(max_attempts=2, backoff=constant(0.2))
def doomed(mark: str):
    note("ran")
    raise ValueError("it always fails")


@task(max_attempts=1)
def quitter(mark: str):
    note("ran")
    raise ValueError("it ends its batch")


@task(max_crashes=2)
def exits(mark: str):
    note("ran")
    os._exit(7)


@task(max_attempts=1)
def leaves(mark: str):
    note("ran")
    raise SystemExit(3)


@task(max_attempts=1)
def unspeakable(mark: str):
    note("ran")
    raise ValueError("no text for PostgreSQL: \0 \ud800" + 100_000 * "x")


@task(max_attempts=1)
def unstorable(mark: str):
    note("ran")
    return {"not JSON": float("nan"), "text": "\0"}


@task(max_attempts=1, timeout=0.5)
def endless(mark: str):
    note("ran")
    while True:
        pass


@task(max_attempts=1, timeout=0.5)
def stubborn(mark: str):
    """Swallow the time-out and run on until the worker has given it up."""
    note("ran")
    for _ in range(10):
        with suppress(BaseException):
            time.sleep(0.5)


@task(max_crashes=1_000)
def greedy(mark: str) -> dict:
    attempt = note("ran")
    len(bytearray(MOST_MEMORY))
    return attempt


@task(max_crashes=1_000)
def disconnects(mark: str) -> dict:
    attempt = note("ran")
    connection.close()
    return attempt


# Deploys: only every other release knows it.

if int(os.environ.get("CHAOS_RELEASE", "1")) % 2:

    @task(max_crashes=1_000)
    def newcomer(mark: str) -> dict:
        return note("ran")
