"""What the settings of these tests name: middleware, hooks and context variables."""

from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar

from django.db import DatabaseError, connection, transaction

from pgjobs import Snooze
from pgjobs.models import Job
from pgjobs.tasks.running_job import RunningJob
from tests.tasks import noop

seen: list[str] = []
tenant: ContextVar[str] = ContextVar("tenant")
not_callable = 5


@contextmanager
def outer(job: RunningJob):
    seen.append(f"outer begins {job.task_name}")
    try:
        yield
    except BaseException as error:
        seen.append(f"outer saw {type(error).__name__}")
        raise
    finally:
        seen.append("outer ends")


@contextmanager
def inner(job: RunningJob):
    seen.append("inner begins")
    tenant.set("acme")
    yield
    seen.append("inner ends")


@asynccontextmanager
async def only_async(job: RunningJob):
    seen.append("async begins")
    yield
    seen.append("async ends")


@contextmanager
def swallowing(job: RunningJob):
    with suppress(ValueError):
        yield


@contextmanager
def snoozing(job: RunningJob):
    raise Snooze(60)
    yield


def broken(job: RunningJob):
    raise LookupError("no such tenant")


def rubbish(job: RunningJob):
    return 5


correlation: ContextVar[str] = ContextVar("correlation_id")
other_tenant: ContextVar[str] = ContextVar("tenant")


def locale() -> dict[str, str]:
    return {"locale": "de"}


def nothing() -> None:
    return None


def raising():
    raise LookupError("no request")


def returns_text():
    return "rubbish"


def returns_objects():
    return {"user": object()}


def returns_nul():
    return {"user": "a\0\ud800"}


def returns_much():
    return {"user": "x" * 10_000_000}


def failing_query():
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO pgjobs_queue (name) VALUES ('of_the_hook')")
        cursor.execute("SELECT 1 / 0")


def caught_query():
    with suppress(DatabaseError):
        failing_query()
    return {"seen": "no"}


def good_query():
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return {"seen": cursor.fetchone()[0]}


def failing_block():
    with suppress(DatabaseError), transaction.atomic(savepoint=False):
        failing_query()
    return {"seen": "no"}


def enqueueing():
    Job.objects.enqueue(noop)
    return {"seen": "job"}
