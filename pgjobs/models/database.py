"""Which database the queue is in."""

from django.db import models

from ..conf import settings


class QueueManager(models.Manager):
    """A manager of the database that PGJOBS["DATABASE"] names."""

    @property
    def db(self) -> str:
        return self._db or settings.DATABASE

    def get_queryset(self):
        return super().get_queryset().using(self.db)
