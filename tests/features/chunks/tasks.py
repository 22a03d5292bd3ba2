"""Tasks whose function gets many jobs in one call; each call adds a line to a file."""

import asyncio
import os
import signal
from dataclasses import dataclass
from time import sleep
from typing import TypedDict

from pydantic import BaseModel

from pgjobs import (
    Cancel,
    Chunk,
    Fail,
    Retry,
    Snooze,
    current_job,
    enqueue_many,
    task,
)
from pgjobs.features.chunks import gathering
from pgjobs.tasks.backoff import constant
from tests.tasks import lines, wait_for_go, write


@dataclass
class Index:
    path: str  # of the file that gets a line for each call
    pk: int
    tenant: int = 0


class Said(TypedDict):
    path: str
    word: str


class Limited(BaseModel):
    low: int
    high: int

    def model_post_init(self, context):
        if self.low > self.high:
            raise ValueError("low is above high")


def calls_in(path) -> list[list[int]]:
    """Return the numbers of the jobs of each call."""
    return [[int(pk) for pk in line.split()] for line in lines(path)]


def enqueue_all(task, path, numbers, **arguments):
    bound = [task.bind(path=path, pk=number, **arguments) for number in numbers]
    return enqueue_many(bound)


def note_call(calls) -> list[int]:
    pks = [call.args.pk for call in calls]
    write(calls[0].args.path, " ".join(map(str, pks)))
    return pks


@task(chunk=10, name="tests.chunks.index")
def index(calls: Chunk[Index]):
    note_call(calls)


@task(chunk=10, chunk_by="tenant", name="tests.chunks.by_tenant")
def by_tenant(calls: Chunk[Index]):
    note_call(calls)


@task(chunk=10, chunk_wait=30, name="tests.chunks.patient")
def patient(calls: Chunk[Index]):
    note_call(calls)


@task(chunk=10, name="tests.chunks.squares")
def squares(calls: Chunk[Index]) -> list[int]:
    return [pk * pk for pk in note_call(calls)]


@task(chunk=10, name="tests.chunks.async_squares")
async def async_squares(calls: Chunk[Index]) -> list[int]:
    await asyncio.sleep(0)
    return [pk * pk for pk in note_call(calls)]


@task(chunk=10, name="tests.chunks.marking", backoff=constant(1000))
def marking(calls: Chunk[Index]):
    """Mark each job by its number; 0 to 3 say nothing."""
    note_call(calls)
    for call in calls:
        match call.args.pk:
            case 4:
                call.fail("four is bad")
            case 5:
                call.cancel("five is over")
            case 6:
                call.retry(after=3600, reason="six is early")
            case 7:
                call.succeed({"seven": 7})
            case 8:
                call.retry()
            case 9:
                call.succeed(object())


ERRORS = {
    1: ValueError("no good"),
    2: Retry(after=3600, reason="later"),
    3: Snooze(3600),
    4: Cancel("not needed"),
    5: Fail("never"),
}


@task(chunk=10, name="tests.chunks.raising", backoff=constant(3600))
def raising(calls: Chunk[Index]):
    """Mark the first job, and raise what the tenant says."""
    note_call(calls)
    calls[0].succeed("first")
    raise ERRORS[calls[0].args.tenant]


@task(chunk=10, name="tests.chunks.returning")
def returning(calls: Chunk[Index]):
    return [1, 2, 3]


@task(
    chunk=64,
    on_chunk_error="bisect",
    name="tests.chunks.picky",
    backoff=constant(0),
    max_attempts=2,
    timeout=1,
)
def picky(calls: Chunk[Index]):
    """Treat jobs by their tenant: 1 raises, 2 hangs, 3 kills the process."""
    note_call(calls)
    for call in calls:
        misbehave(call.args.tenant)


@task(
    chunk=64,
    on_chunk_error="bisect",
    name="tests.chunks.async_picky",
    backoff=constant(0),
    max_attempts=2,
)
async def async_picky(calls: Chunk[Index]):
    note_call(calls)
    for call in calls:
        misbehave(call.args.tenant)


def misbehave(how: int) -> None:
    if how == 1:
        raise ValueError("poisoned")
    if how == 2:
        for _ in range(2000):
            sleep(0.01)
    if how == 3:
        os.kill(os.getpid(), signal.SIGKILL)


@task(chunk=10, name="tests.chunks.holding")
def holding(calls: Chunk[Index]):
    """Mark the first job, and return when the test lets it."""
    note_call(calls)
    calls[0].succeed("first")
    current_job().log("holds")
    wait_for_go(calls[0].args.path + ".go")
    for call in calls:
        if call.cancelled:
            call.cancel("as asked")


@task(chunk=10, name="tests.chunks.stepping")
def stepping(calls: Chunk[Index]):
    calls[0].job.step("a", len, [])


@task(chunk=10, name="tests.chunks.words")
def words(calls: Chunk[Said]) -> list[str]:
    return [call.args["word"] for call in calls]


@task(chunk=10, name="tests.chunks.ranges")
def ranges(calls: Chunk[Limited]) -> list[int]:
    return [call.args.high - call.args.low for call in calls]


def die_at(place: str) -> None:
    """Kill this process before or after it claims companions for the first time."""
    name, _, where = place.partition(" ")
    gather = getattr(gathering, name)

    def dying(*arguments):
        if where == "after":
            gather(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(gathering, name, dying)


if "PGJOBS_TEST_DIES" in os.environ:
    die_at(os.environ["PGJOBS_TEST_DIES"])
