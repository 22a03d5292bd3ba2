"""The batches that have not ended, as `jobstatus` tells them."""

from typing import Any

from django.core.management.base import OutputWrapper

from ...models.batch import Batch, progress_of

NAME = "batches"
MOST_BATCHES = 20  # that are read


def state(database: str) -> list[dict[str, Any]]:
    """Return those of the latest batches that have not ended."""
    latest = list(Batch.objects.using(database).order_by("-pk")[:MOST_BATCHES])
    ids = [batch.pk for batch in latest]
    progress = progress_of(Batch.objects.using(database).filter(pk__in=ids))
    return [
        {
            "id": batch.pk,
            "description": batch.description,
            "total": of.total,
            "finished": of.finished,
            "failed": of.failed,
        }
        for batch in latest
        if (of := progress.get(batch.pk)) and not of.is_finished
    ]


def write(out: OutputWrapper, batches: list[dict[str, Any]]) -> None:
    for batch in batches:
        name = "batch {id} {description}".format(**batch).strip()
        ended = "{finished} of {total} jobs ended, {failed} failed".format(**batch)
        out.write(f"{name}: {ended}")
