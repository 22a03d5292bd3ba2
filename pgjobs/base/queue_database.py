"""Which database the queue is in, and what time it is there."""

from datetime import datetime
from typing import TypeVar

from django.db import connections, models

from .database_choice import (
    database_to_change,
    database_to_read,
    database_to_write,
)
from .moments import instant

Row = TypeVar("Row", bound=models.Model)
DECLARING_LOCK = 0x70676A73  # of an advisory lock ("pgjs" in ASCII)
LONGEST_WAIT = 5  # seconds, for what others lock while they declare


class QueueSet(models.QuerySet[Row]):
    """Rows that are changed where they can be, wherever they were read."""

    @property
    def db(self) -> str:
        alias = super().db
        return database_to_change(alias) if self._for_write else alias

    def to_change(self):
        """Return the same set in the database where its rows are changed."""
        return self.using(database_to_change(self.db))


class QueueManager(models.Manager.from_queryset(QueueSet)):  # type: ignore[misc]
    """A manager of the queue that a call means, or of its instance's own queue."""

    instance: models.Model | None = None  # of `batch.jobs` and the like

    @property
    def db(self) -> str:
        of_instance = self.instance._state.db if self.instance is not None else None
        return self._db or of_instance or database_to_read()

    @property
    def db_to_write(self) -> str:
        """The database in which new rows belong. Raises AmbiguousDatabase."""
        return self._db or database_to_write()

    def get_queryset(self):
        return super().get_queryset().using(self.db)


def database_of_acts(row: models.Model) -> str:
    """Return the database in which this row, wherever it was read, is changed."""
    alias = row._state.db
    return database_to_write() if alias is None else database_to_change(alias)


def database_time(database: str) -> datetime:
    """Return the time of the database, by which jobs are due and workers dead."""
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return instant(cursor.fetchone()[0])


def declare_alone(database: str) -> None:
    """Let no other process store declarations until the transaction ends.

    From here on the transaction waits for no lock longer than LONGEST_WAIT. Then it
    raises OperationalError, whose cause is LockNotAvailable.
    """
    with connections[database].cursor() as cursor:
        cursor.execute(
            "SELECT set_config('lock_timeout', %s, true)",
            [f"{LONGEST_WAIT * 1000:.0f}ms"],
        )
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [DECLARING_LOCK])
