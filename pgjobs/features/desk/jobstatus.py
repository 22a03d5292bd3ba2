"""How the tasks did in the last hour, as `jobstatus` tells it."""

from typing import Any

from django.core.management.base import OutputWrapper

from ...management.tables import print_table
from ...reports.texts import one_line
from .charts import about
from .figures import PERIODS, figures

NAME = "last_hour"


def state(database: str) -> list[dict[str, Any]]:
    """Return figures of each task; its times are those of a half and of 95 %."""
    return [
        {
            "task": task.key,
            "successful": task.successful,
            "failed": task.failed,
            "cancelled": task.cancelled,
            "retried": task.retried,
            "run_seconds": [task.run_time(0.5), task.run_time(0.95)],
            "wait_seconds": [task.wait_time(0.5), task.wait_time(0.95)],
        }
        for task in figures(database, PERIODS["hour"]).tasks
    ]


def write(out: OutputWrapper, tasks: list[dict[str, Any]]) -> None:
    if not tasks:
        return
    titles = ("last hour", "ended", "failed", "run time p95", "waited p95")
    rows = [
        (
            one_line(task["task"]),
            task["successful"] + task["failed"] + task["cancelled"],
            task["failed"],
            about(task["run_seconds"][1]) or "-",
            about(task["wait_seconds"][1]) or "-",
        )
        for task in tasks
    ]
    print_table(out, titles, rows, "")
    out.write("")
