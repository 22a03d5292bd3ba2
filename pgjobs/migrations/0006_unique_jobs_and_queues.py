"""The columns, constraints and table of unique jobs and queues."""

import django.core.validators
from django.db import migrations, models

import pgjobs.models.database

from ._postgresql import RunPostgreSQL

# While it is true nobody else can have the key. An attempt that has begun counts as
# started for good, so that no job which goes back to the queue can meet a newer one.
# In PL/pgSQL, which PostgreSQL does not inline: what it would have to parse with each
# statement, for jobs without keys as well, took 13 us of an INSERT.
HOLDS_KEY = (
    """
    CREATE FUNCTION pgjobs_holds_key(
        unique_for text, unique_until timestamptz,
        status text, attempts integer, finished_at timestamptz
    ) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        RETURN CASE unique_for
            WHEN 'unfinished' THEN finished_at IS NULL
            WHEN 'waiting' THEN finished_at IS NULL AND attempts = 0
            ELSE unique_until IS NOT NULL AND status NOT IN ('FAILED', 'CANCELLED')
        END;
    END
    $$;
    """,
    "DROP FUNCTION pgjobs_holds_key(text, timestamptz, text, integer, timestamptz)",
)

# For the same reason behind a function: 15 us.
CHECKS = (
    """
    CREATE FUNCTION pgjobs_is_unique_key(
        unique_key text, unique_for text, unique_until timestamptz
    ) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        RETURN coalesce(unique_key, '') <> ''
            AND coalesce(unique_for, '') IN ('unfinished', 'waiting', 'period')
            AND (unique_until IS NULL OR unique_for = 'period');
    END
    $$;
    ALTER TABLE pgjobs_job ADD CONSTRAINT pgjobs_job_unique_key CHECK (
        unique_key IS NULL AND unique_for IS NULL AND unique_until IS NULL
        OR pgjobs_is_unique_key(unique_key, unique_for, unique_until)
    );
    """,
    """
    ALTER TABLE pgjobs_job DROP CONSTRAINT pgjobs_job_unique_key;
    DROP FUNCTION pgjobs_is_unique_key(text, text, timestamptz);
    """,
)


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
        RunPostgreSQL(*HOLDS_KEY),
        migrations.AddField(
            model_name="job",
            name="holds_key",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.Case(
                    models.When(
                        then=pgjobs.models.database.HoldsKey(),
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
        RunPostgreSQL(*CHECKS),
        migrations.AddConstraint(
            model_name="queue",
            constraint=models.CheckConstraint(
                condition=models.Q(("max_running__gte", 1)),
                name="pgjobs_queue_max_running",
            ),
        ),
    ]
