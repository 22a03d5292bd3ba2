"""The tables of predecessors and batches; jobs with keys that can stand aside."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import pgjobs.plain_json


class Migration(migrations.Migration):
    dependencies = [
        ("pgjobs", "0007_queue_limits"),
    ]

    operations = [
        migrations.CreateModel(
            name="Batch",
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
                    "description",
                    models.CharField(
                        blank=True,
                        db_default="",
                        max_length=200,
                        verbose_name="description",
                    ),
                ),
                (
                    "enqueued_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        verbose_name="enqueued at",
                    ),
                ),
            ],
            options={
                "verbose_name": "batch",
                "verbose_name_plural": "batches",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Predecessor",
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
                ("job_id", models.BigIntegerField()),
                ("predecessor_id", models.BigIntegerField(null=True)),
                ("batch_id", models.BigIntegerField(null=True)),
                (
                    "needs",
                    models.CharField(
                        choices=[
                            ("success", "its success"),
                            ("end", "its end"),
                            ("failure", "its failure"),
                            ("dependency", "its success, or the job fails"),
                        ],
                        db_default="success",
                        max_length=10,
                    ),
                ),
                ("is_open", models.BooleanField(db_default=True)),
            ],
            options={
                "verbose_name": "predecessor",
                "verbose_name_plural": "predecessors",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Unsettled",
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
                ("kind", models.CharField(max_length=11)),
                ("key", models.CharField(max_length=20)),
            ],
            options={
                "verbose_name": "unsettled key",
                "verbose_name_plural": "unsettled keys",
                "default_permissions": (),
            },
        ),
        migrations.RemoveConstraint(
            model_name="hold",
            name="pgjobs_hold_state",
        ),
        migrations.AddField(
            model_name="hold",
            name="queue_name",
            field=models.CharField(max_length=200, null=True),
        ),
        migrations.AlterField(
            model_name="hold",
            name="state",
            field=models.CharField(
                choices=[
                    ("place", "has its place: is ready or runs"),
                    ("predecessor", "waits for its predecessors"),
                    ("dependency", "waits for its dependencies"),
                    ("lock", "waits for its lock"),
                    ("limit", "waits for its limit"),
                    ("rate", "waits for its rate"),
                    ("aside", "stands aside: no worker serves its queue"),
                    ("later", "is scheduled"),
                ],
                max_length=11,
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="keys",
            field=models.JSONField(
                blank=True,
                decoder=pgjobs.plain_json.LenientDecoder,
                null=True,
                verbose_name="ties to other jobs",
            ),
        ),
        migrations.AlterField(
            model_name="job",
            name="waiting_for",
            field=models.CharField(
                blank=True,
                choices=[
                    ("predecessor", "its predecessors"),
                    ("dependency", "its dependencies"),
                    ("lock", "a lock"),
                    ("limit", "a free place"),
                    ("rate", "its rate"),
                ],
                max_length=11,
                null=True,
                verbose_name="waits for",
            ),
        ),
        migrations.AddIndex(
            model_name="hold",
            index=models.Index(
                models.F("queue_name"),
                condition=models.Q(("state", "aside")),
                name="pgjobs_hold_aside",
            ),
        ),
        migrations.AddConstraint(
            model_name="hold",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["place", "predecessor", "dependency", "later"]),
                    models.Q(("queue_name__isnull", False), ("state", "aside")),
                    models.Q(("lock__isnull", False), ("state", "lock")),
                    models.Q(("limit_key__isnull", False), ("state", "limit")),
                    models.Q(
                        ("opens_at__isnull", False),
                        ("rate_key__isnull", False),
                        ("state", "rate"),
                    ),
                    _connector="OR",
                ),
                name="pgjobs_hold_state",
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="batch",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="jobs",
                to="pgjobs.batch",
                verbose_name="batch",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                models.F("batch"),
                models.F("status"),
                condition=models.Q(("batch__isnull", False)),
                name="pgjobs_job_batch",
            ),
        ),
        migrations.AddIndex(
            model_name="predecessor",
            index=models.Index(
                models.F("predecessor_id"),
                models.F("is_open"),
                models.F("job_id"),
                condition=models.Q(("predecessor_id__isnull", False)),
                name="pgjobs_predecessor_jobs",
            ),
        ),
        migrations.AddIndex(
            model_name="predecessor",
            index=models.Index(
                models.F("batch_id"),
                models.F("is_open"),
                models.F("job_id"),
                condition=models.Q(("batch_id__isnull", False)),
                name="pgjobs_predecessor_batch_jobs",
            ),
        ),
        migrations.AddConstraint(
            model_name="predecessor",
            constraint=models.UniqueConstraint(
                fields=("job_id", "predecessor_id"), name="pgjobs_predecessor_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="predecessor",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("batch_id__isnull", True), ("predecessor_id__isnull", False)
                    ),
                    models.Q(
                        ("batch_id__isnull", False), ("predecessor_id__isnull", True)
                    ),
                    _connector="OR",
                ),
                name="pgjobs_predecessor_one",
            ),
        ),
        migrations.AddConstraint(
            model_name="predecessor",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("needs__in", ["success", "end", "failure", "dependency"])
                ),
                name="pgjobs_predecessor_needs",
            ),
        ),
        migrations.AddIndex(
            model_name="unsettled",
            index=models.Index(
                models.F("kind"), models.F("key"), name="pgjobs_unsettled_key"
            ),
        ),
    ]
