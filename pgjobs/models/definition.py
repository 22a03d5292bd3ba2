"""Task definitions: what the database knows of the tasks that code declares."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager, QueueSet
from .table import Table


class DefinitionQuerySet(QueueSet["TaskDefinition"]):
    def active(self):
        """Filter the tasks that code declares."""
        return self.filter(gone_at__isnull=True)


class TaskDefinition(Table):
    """A task as code declares it, or once did. Only code changes it.

    SQL functions use it to check arguments and to give jobs their task's options.
    """

    name = models.CharField(
        _("name"),
        max_length=200,
        unique=True,
        db_comment="Name of the task, by which jobs name it.",
    )
    origin = models.TextField(
        _("defined as"), db_comment="Module and function that define it."
    )
    description = models.TextField(
        _("description"),
        db_default="",
        blank=True,
        db_comment="Summary of its docstring.",
    )
    # See features/definitions/schemas.py.
    parameters = models.JSONField(
        _("parameters"),
        db_comment="Types, choices and defaults of its arguments, as JSON Schema.",
    )
    # See features/definitions/definitions.py.
    options = models.JSONField(
        _("options"), db_comment="What @task(...) says of its jobs, as JSON."
    )
    synced_at = models.DateTimeField(
        _("last changed"), db_comment="When the definition last changed."
    )
    gone_at = models.DateTimeField(
        _("gone since"),
        null=True,
        blank=True,
        db_comment="When code was found to have it no more. NULL: code declares it.",
    )

    objects = QueueManager.from_queryset(DefinitionQuerySet)()

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        db_table_comment = (
            "Tasks that code declares, or once did. Only code changes them."
        )
        default_permissions = ("view", "change")

    def __str__(self) -> str:
        return self.name

    @property
    def is_active(self) -> bool:
        return self.gone_at is None
