import logging
import time
from threading import Event
from typing import Literal

from benchmarks import tasks
from pgjobs import task

logger = logging.getLogger(__name__)


@task
def log(number: int) -> None:
    logger.info("job with number %s", number)


TASKS = {"noop": task(tasks.noop), "stamp": task(tasks.stamp), "log": log}


@task
def report(client_id: int, month: str, format: Literal["csv", "json", "parquet"]):
    """Be enqueued by SQL, with three parameters to check."""


MOMENTS: list[float] = []
HAS_STARTED = Event()


@task
def stamp_moment(number: int) -> None:
    """Store when the job started, for a benchmark in the worker's own process."""
    MOMENTS.append(time.perf_counter())
    HAS_STARTED.set()
