"""The processes of isolated jobs, as `jobstatus` tells them."""

from typing import Any

from django.core.management.base import OutputWrapper

from ...models.worker import Worker
from ...reports.texts import one_line
from .shown import figures_of, in_words

NAME = "isolated"


def state(database: str) -> list[dict[str, Any]]:
    """Return the figures of each worker that has had such processes."""
    workers = Worker.objects.using(database).filter(children__isnull=False)
    found = workers.order_by("name", "pk").values_list("name", "children")
    return [{"worker": name} | figures_of(children) for name, children in found]


def write(out: OutputWrapper, workers: list[dict[str, Any]]) -> None:
    for each in workers:
        name = one_line(each["worker"])
        out.write(f"Isolated jobs of {name}, processes: {in_words(each)}")
