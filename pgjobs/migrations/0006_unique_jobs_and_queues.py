"""The columns, constraints and table of unique jobs and queues."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pgjobs", "0005_holding_back"),
    ]

    operations = [
        migrations.CreateModel(
            name="Queue",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True,
                        primary_key=True,
                        serialize=False,
                        verbose_name="ID",
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        max_length=200,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[^,\\x00-\\x1f\\x7f-\\x9f]+\\Z",
                                "Enter a name without commas and control characters.",
                            )
                        ],
                        verbose_name="name",
                    ),
                ),
                (
                    "paused_at",
                    models.DateTimeField(
                        blank=True, null=True, verbose_name="paused at"
                    ),
                ),
                (
                    "max_running",
                    models.IntegerField(
                        blank=True,
                        help_text="Of all workers together. Empty: as many as there are slots.",
                        null=True,
                        validators=[django.core.validators.MinValueValidator(1)],
                        verbose_name="most running jobs",
                    ),
                ),
                (
                    "note",
                    models.TextField(blank=True, db_default="", verbose_name="note"),
                ),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "permissions": [("pause_queue", "Can pause and resume queues")],
                "default_permissions": ("add", "change", "view"),
            },
        ),
        migrations.AddField(
            model_name="job",
            name="unique_for",
            field=models.CharField(
                blank=True,
                choices=[
                    ("unfinished", "until it has ended"),
                    ("waiting", "until it is started"),
                    ("period", "for a time, unless it fails or is cancelled"),
                ],
                max_length=10,
                null=True,
                verbose_name="unique",
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="unique_key",
            field=models.CharField(
                blank=True, max_length=500, null=True, verbose_name="unique key"
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="unique_until",
            field=models.DateTimeField(
                blank=True, null=True, verbose_name="unique until"
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="holds_key",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.Case(
                    models.When(
                        then=models.ExpressionWrapper(
                            models.Q(
                                models.Q(
                                    ("finished_at__isnull", True),
                                    ("unique_for", "unfinished"),
                                ),
                                models.Q(
                                    ("attempts", 0),
                                    ("finished_at__isnull", True),
                                    ("unique_for", "waiting"),
                                ),
                                models.Q(
                                    ("unique_until__isnull", False),
                                    models.Q(
                                        ("status__in", ["FAILED", "CANCELLED"]),
                                        _negated=True,
                                    ),
                                ),
                                _connector="OR",
                            ),
                            models.BooleanField(),
                        ),
                        unique_key__isnull=False,
                    )
                ),
                output_field=models.BooleanField(
                    null=True, verbose_name="holds the unique key"
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(
                condition=models.Q(("holds_key", True)),
                fields=("unique_key", "unique_for"),
                name="pgjobs_job_unique",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("unique_for__isnull", True),
                        ("unique_key__isnull", True),
                        ("unique_until__isnull", True),
                    ),
                    models.Q(
                        models.Q(("unique_key", ""), _negated=True),
                        models.Q(
                            ("unique_for", "period"),
                            ("unique_until__isnull", True),
                            _connector="OR",
                        ),
                        ("unique_for__in", ["unfinished", "waiting", "period"]),
                        ("unique_for__isnull", False),
                        ("unique_key__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="pgjobs_job_unique_key",
            ),
        ),
        migrations.AddConstraint(
            model_name="queue",
            constraint=models.CheckConstraint(
                condition=models.Q(("max_running__gte", 1)),
                name="pgjobs_queue_max_running",
            ),
        ),
    ]
