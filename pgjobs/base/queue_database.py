"""Which database the queue is in, and what time it is there."""

from datetime import datetime

from django.db import connections, models

from .database_choice import database_to_read, database_to_write

DECLARING_LOCK = 0x70676A73  # of an advisory lock ("pgjs" in ASCII)
LONGEST_WAIT = 5  # seconds, for what others lock while they declare


class QueueManager(models.Manager):
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


def database_time(database: str) -> datetime:
    """Return the time of the database, by which jobs are due and workers dead."""
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


def declare_alone(database: str) -> None:
    """Let no other process store declarations until the transaction ends.

    From here on the transaction waits for no lock longer than LONGEST_WAIT. Then it
    raises OperationalError, whose cause is LockNotAvailable.
    """
    with connections[database].cursor() as cursor:
        cursor.execute(
            "SELECT set_config('lock_timeout', %s, true)", [f"{LONGEST_WAIT}s"]
        )
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [DECLARING_LOCK])


def who_declares(database: str) -> list[int]:
    """Return the process ids of the sessions that keep others from declaring."""
    with connections[database].cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"
            " AND classid = 0 AND objid = %s AND database = ("
            "SELECT oid FROM pg_database WHERE datname = current_database())",
            [DECLARING_LOCK],
        )
        return [pid for (pid,) in cursor.fetchall()]
