"""Tasks whose body a test gives: a worker finds only functions of modules."""

from collections.abc import Callable
from typing import Any

from pgjobs import current_job, task
from pgjobs.models import Job
from tests.processes import drain

EVENTS = ("order.*", "export.done")
body: Callable[[Any], Any]


@task(waits_for=EVENTS, max_attempts=2, backoff=lambda failures: 0)
def plain():
    return body(current_job())


@task(waits_for=EVENTS)
async def coroutine():
    return await body(current_job())


@task(atomic=True)
def atomic():
    return body(current_job())


@task(lock="door", lock_mode="mutex")
def locked():
    return body(current_job())


@task(lock="door")
def ordered():
    return body(current_job())


@task(version=2)
def second_version():
    return body(current_job())


@task(waits_for=EVENTS)
def numbered(number: int = 0):
    return body(current_job(), number)


@task(waits_for=EVENTS)
async def numbered_coroutine(number: int = 0):
    return await body(current_job(), number)


@task
def followed(job_id: int):
    pass


@task(sensitive=["iban"])
def secretive(iban: str):
    title = f"Pay to {iban}?"
    return current_job().wait_for("question", bool, title=title, anyone_with_link=True)


@task(waits_for=EVENTS, sensitive=["iban"])
def sensitive(iban: str):
    return body(current_job())


@task(max_attempts=1)
def child(number: int) -> int:
    return number // number


def enqueued(function: Callable[[Any], Any], task=plain) -> Job:
    """Enqueue a job with this body."""
    global body
    body = function
    return task.enqueue()


def done(function: Callable[[Any], Any], task=plain) -> Job:
    """Run a job with this body until nothing is ready; return it."""
    return goes_on(enqueued(function, task))


def goes_on(job: Job) -> Job:
    """Let a worker do what is to do; return the job as it is then."""
    drain()
    job.refresh_from_db()
    return job
