from typing import Literal

from benchmarks import tasks
from pgjobs import task

TASKS = {"noop": task(tasks.noop), "stamp": task(tasks.stamp)}


@task
def report(client_id: int, month: str, format: Literal["csv", "json", "parquet"]):
    """Be enqueued by SQL, with three parameters to check."""
