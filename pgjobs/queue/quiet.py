"""Inserting jobs without waking a worker, as the mode "manual" wants it."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections, transaction

from ..conf import settings

# Read by the trigger that notifies of inserted jobs: functions/jobs/notify_inserted.sql
SET = "SELECT set_config('pgjobs.notifies', %s, true)"


def is_quiet() -> bool:
    mode: str = settings.get("MODE")
    return mode == "manual"


@contextmanager
def quiet(database: str) -> Iterator[None]:
    """Notify no worker of the jobs that the block inserts.

    Later statements of the transaction notify as usual. If the block raises, its
    savepoint takes the setting back.
    """
    with transaction.atomic(using=database), connections[database].cursor() as cursor:
        cursor.execute(SET, ["off"])
        yield
        cursor.execute(SET, ["on"])
