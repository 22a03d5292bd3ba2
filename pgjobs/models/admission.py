"""What admission keeps beside the jobs: see database/functions/admission/admit.sql."""

from django.contrib.postgres import fields
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from .table import Table


class ArrayField(fields.ArrayField):
    """Store an array, also where `django.contrib.postgres` is not installed.

    Django 6.1 asks for that app. What the app adds is lookups and widgets, which no
    field of pgjobs needs.
    """

    def check(self, **kwargs):
        errors = super().check(**kwargs)
        return [error for error in errors if error.id != "postgres.E005"]

    def deconstruct(self):
        name, _, args, kwargs = super().deconstruct()
        return name, "django.contrib.postgres.fields.ArrayField", args, kwargs


class Rate(Table):
    """When jobs of a rate started. The jobs of a rate without a row did not."""

    id = None
    key = models.CharField(
        max_length=500,
        primary_key=True,
        db_comment="The key that the jobs of the rate share.",
    )
    full_at = models.DateTimeField(
        db_comment="When none of the starts will count any more."
    )
    opens_at = models.DateTimeField(
        null=True,
        db_comment="When the next job may start. NULL while none waits for it.",
    )
    starts = ArrayField(
        models.DateTimeField(),
        null=True,
        db_comment="The last start in each slice of time. NULL: release 0.9.0 wrote "
        "the row.",
    )
    counts = ArrayField(
        models.IntegerField(),
        null=True,
        db_comment="How many jobs started in each slice of time.",
    )
    even_at = models.DateTimeField(
        null=True,
        db_comment="When all starts would be over if they were evenly spaced.",
    )
    shortest = models.FloatField(
        null=True, db_comment="The shortest period of the key's rates, in seconds."
    )
    longest = models.FloatField(
        null=True, db_comment="The longest period of the key's rates, in seconds."
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("rate")
        verbose_name_plural = _("rates")
        db_table_comment = "When jobs of each rate started, counted in slices of time."
        default_permissions = ()
        indexes = [
            models.Index(
                "opens_at",
                condition=Q(opens_at__isnull=False),
                name="pgjobs_rate_opens_at",
            )
        ]

    def __str__(self) -> str:
        return self.key


class Note(Table):
    """Work for the next admission that no row of a job shows.

    It names a key that may have room, or a job whose successors must be resolved.
    """

    job_id = models.BigIntegerField(
        null=True,
        db_comment="A job whose successors an admission must look at. NULL: none.",
    )
    keys = models.JSONField(
        null=True,
        db_comment="Keys that may have room, or the batch_id of a batch that has "
        "ended, as JSON. NULL: none.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("note")
        verbose_name_plural = _("notes")
        db_table_comment = "Work for the next admission that no row of a job shows."
        default_permissions = ()

    def __str__(self) -> str:
        return f"#{self.job_id}" if self.job_id else str(self.keys)
