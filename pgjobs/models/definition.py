"""Task definitions: what the database knows of the tasks that code declares."""

import json
from typing import Any, NamedTuple

from django.db import connections, models, transaction
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager, QueueSet, declare_alone
from ..sql import statement
from .manifest import ManifestEntry
from .table import Table

FIELDS = ("name", "origin", "description", "parameters", "options")


class Synced(NamedTuple):
    """The names of the tasks that a synchronisation has changed."""

    new: list[str]
    changed: list[str]
    gone: list[str]


class DefinitionQuerySet(QueueSet["TaskDefinition"]):
    def active(self):
        """Filter the tasks that code declares."""
        return self.filter(gone_at__isnull=True)


class DefinitionManager(
    QueueManager.from_queryset(DefinitionQuerySet)  # type: ignore[misc]
):
    def sync(self, declared: list[dict[str, Any]], others_go: bool = True) -> Synced:
        """Store the tasks that code declares, in one statement.

        `others_go`: whether the other tasks are marked as gone. Several processes may
        do so at the same time.
        """
        columns: dict[str, Any] = {
            field: [
                json.dumps(each[field])
                if field in ("parameters", "options")
                else each[field]
                for each in declared
            ]
            for field in FIELDS
        }
        with transaction.atomic(using=self.db):
            declare_alone(self.db)
            with connections[self.db].cursor() as cursor:
                cursor.execute(
                    statement("sync_tasks"), {**columns, "others_go": others_go}
                )
                return synced(cursor.fetchall())

    def differences(self, declared: list[dict[str, Any]]) -> Synced:
        """Return what `sync` would change.

        A task that another version of the code declares, which lives, is not gone.
        """
        stored = {row[0]: row for row in self.active().values_list(*FIELDS)}
        rows = {
            each["name"]: tuple(each[field] for field in FIELDS) for each in declared
        }
        living = ManifestEntry.objects.using(self.db).filter(
            manifest__lives_until__gt=Now(), kind="task"
        )
        elsewhere = set(living.values_list("name", flat=True))
        return synced(
            [(name, "new") for name in rows.keys() - stored.keys()]
            + [
                (name, "changed")
                for name in rows.keys() & stored.keys()
                if rows[name] != stored[name]
            ]
            + [(name, "gone") for name in stored.keys() - rows.keys() - elsewhere]
        )


def synced(found: list[tuple[str, str]]) -> Synced:
    return Synced(
        *(
            sorted(name for name, kind in found if kind == wanted)
            for wanted in Synced._fields
        )
    )


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
    # See tasks/schemas.py.
    parameters = models.JSONField(
        _("parameters"),
        db_comment="Types, choices and defaults of its arguments, as JSON Schema.",
    )
    # See tasks/definitions.py.
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

    objects = DefinitionManager()

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        db_table_comment = (
            "Tasks that code declares, or once did. Only code changes them."
        )
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.name

    @property
    def is_active(self) -> bool:
        return self.gone_at is None
