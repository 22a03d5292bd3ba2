"""Which database the queue is in, and what time it is there."""

from datetime import datetime

from django.db import connections, models

from ..conf import settings


class QueueManager(models.Manager):
    """A manager of the database that PGJOBS["DATABASE"] names."""

    @property
    def db(self) -> str:
        return self._db or settings.DATABASE

    def get_queryset(self):
        return super().get_queryset().using(self.db)


class StoredColumn(models.GeneratedField):
    """A generated column whose system check asks no server.

    Every version that pgjobs supports can generate columns. Django asks each database
    of the project, since 6.1 with every command, also with those that need none.
    """

    def check(self, **kwargs):
        return super().check(**{**kwargs, "databases": []})

    def deconstruct(self):
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.GeneratedField", args, kwargs


def database_time(database: str) -> datetime:
    """Return the database's clock: no other decides what is due or dead."""
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]
