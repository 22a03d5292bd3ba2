"""Manifests: what each version of the code declares, so that two can run together."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ...base.queue_database import QueueManager
from ...fields import LenientDecoder
from ...models.table import Table


class Manifest(Table):
    """All that a process of one version of the code declares.

    Of two that declare a name, the one decides whose version appeared last. See
    declaring.py.
    """

    # Made of version and digest, so that a dump may be loaded beside what is there.
    id = models.BigIntegerField(
        primary_key=True, db_comment="Made of the version and the digest."
    )
    version = models.CharField(
        _("version"),
        max_length=200,
        db_comment="Version of the code: the setting VERSION, or else the digest.",
    )
    digest = models.CharField(
        _("digest"), max_length=64, db_comment="Digest of all that it declares."
    )
    appeared_at = models.DateTimeField(
        _("appeared"),
        db_comment="When the version appeared. One that was away for an hour counts as "
        "new.",
    )
    stored_at = models.DateTimeField(
        _("stored"),
        db_comment="When it was stored. Of several manifests of one version the last "
        "one decides.",
    )
    lives_until = models.DateTimeField(
        _("lives until"),
        db_comment="Until then it counts as that of a living worker. Workers renew it.",
    )
    is_applied = models.BooleanField(
        _("is applied"),
        db_default=False,
        default=False,
        db_comment="Whether tasks, schedules and subscriptions are known to be in "
        "line with it. Not so: with it left out.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("manifest")
        verbose_name_plural = _("manifests")
        db_table_comment = "What each version of the code declares."
        default_permissions = ()

    def __str__(self) -> str:
        return self.version


class ManifestEntry(Table):
    """A task, a schedule or a subscription of a manifest."""

    id = models.BigIntegerField(
        primary_key=True, db_comment="Made of the manifest, the kind and the names."
    )
    # Rows go with their manifest: forget_manifests.sql.
    manifest = models.ForeignKey(
        Manifest,
        models.CASCADE,
        related_name="entries",
        verbose_name=_("manifest"),
        db_comment="The manifest that it is in.",
    )
    kind = models.CharField(
        _("kind"), max_length=20, db_comment="task, schedule or subscription."
    )
    name = models.CharField(
        _("name"), max_length=200, db_comment="Name of the task or of the schedule."
    )
    event = models.CharField(
        _("event"),
        max_length=200,
        blank=True,
        db_comment="Event of a subscription. Empty: it is none.",
    )
    digest = models.CharField(
        _("digest"),
        max_length=64,
        db_comment="Digest of what matters of it, to find what versions declare "
        "differently.",
    )
    value = models.JSONField(
        _("value"), decoder=LenientDecoder, db_comment="What it declares, as JSON."
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("entry of a manifest")
        verbose_name_plural = _("entries of manifests")
        db_table_comment = "The tasks, schedules and subscriptions of manifests."
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
