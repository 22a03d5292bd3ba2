"""Which database the queue is in, and what time it is there."""

from datetime import datetime

from django.db import connections, models

from ..conf import settings

DECLARING_LOCK = 0x70676A73  # of an advisory lock ("pgjs" in ASCII)


class QueueManager(models.Manager):
    """A manager of the database that PGJOBS["DATABASE"] names."""

    @property
    def db(self) -> str:
        return self._db or settings.DATABASE

    def get_queryset(self):
        return super().get_queryset().using(self.db)


def database_time(database: str) -> datetime:
    """Return the time of the database, by which jobs are due and workers dead."""
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


def declare_alone(database: str) -> None:
    """Let no other process store declarations until the transaction ends."""
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [DECLARING_LOCK])
