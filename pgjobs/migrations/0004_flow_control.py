"""The columns, and the tables of what holds jobs back."""

from django.db import migrations, models

import pgjobs.plain_json


class Migration(migrations.Migration):
    dependencies = [
        ("pgjobs", "0003_schedules"),
    ]

    operations = [
        migrations.CreateModel(
            name="Hold",
            fields=[
                ("job_id", models.BigIntegerField(primary_key=True, serialize=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("place", "has its place: is ready or runs"),
                            ("lock", "waits for its lock"),
                            ("limit", "waits for its limit"),
                            ("rate", "waits for its rate"),
                            ("later", "is scheduled"),
                        ],
                        max_length=10,
                    ),
                ),
                ("priority", models.SmallIntegerField()),
                ("lock", models.CharField(max_length=500, null=True)),
                ("is_ordered", models.BooleanField(db_default=True)),
                ("limit_key", models.CharField(max_length=500, null=True)),
                ("max_running", models.IntegerField(null=True)),
                ("rate_key", models.CharField(max_length=500, null=True)),
                ("rate_interval", models.FloatField(null=True)),
                ("rate_burst", models.IntegerField(null=True)),
                ("opens_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "hold",
                "verbose_name_plural": "holds",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Rate",
            fields=[
                (
                    "key",
                    models.CharField(max_length=500, primary_key=True, serialize=False),
                ),
                ("full_at", models.DateTimeField()),
            ],
            options={
                "verbose_name": "rate",
                "verbose_name_plural": "rates",
                "default_permissions": (),
            },
        ),
        migrations.RemoveIndex(
            model_name="job",
            name="pgjobs_job_ready",
        ),
        migrations.AddField(
            model_name="job",
            name="blocked_by_id",
            field=models.BigIntegerField(
                blank=True, null=True, verbose_name="blocked by"
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="keys",
            field=models.JSONField(
                blank=True,
                decoder=pgjobs.plain_json.LenientDecoder,
                null=True,
                verbose_name="lock, limit and rate",
            ),
        ),
        migrations.AddField(
            model_name="job",
            name="turn",
            field=models.BigIntegerField(db_default=0, verbose_name="turn"),
        ),
        migrations.AddField(
            model_name="job",
            name="waiting_for",
            field=models.CharField(
                blank=True,
                choices=[
                    ("lock", "a lock"),
                    ("limit", "a free place"),
                    ("rate", "its rate"),
                ],
                max_length=10,
                null=True,
                verbose_name="waits for",
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                models.F("queue_name"),
                models.OrderBy(models.F("priority"), descending=True),
                models.F("turn"),
                condition=models.Q(("status", "READY")),
                name="pgjobs_job_ready",
            ),
        ),
        migrations.AddIndex(
            model_name="hold",
            index=models.Index(
                models.F("lock"),
                models.F("job_id"),
                condition=models.Q(("is_ordered", True), ("lock__isnull", False)),
                name="pgjobs_hold_lock_order",
            ),
        ),
        migrations.AddIndex(
            model_name="hold",
            index=models.Index(
                models.F("lock"),
                models.F("is_ordered"),
                models.F("job_id"),
                condition=models.Q(("state", "lock")),
                name="pgjobs_hold_lock_line",
            ),
        ),
        migrations.AddIndex(
            model_name="hold",
            index=models.Index(
                models.F("limit_key"),
                condition=models.Q(("limit_key__isnull", False), ("state", "place")),
                name="pgjobs_hold_limit_place",
            ),
        ),
        migrations.AddIndex(
            model_name="hold",
            index=models.Index(
                models.F("limit_key"),
                models.OrderBy(models.F("priority"), descending=True),
                models.F("job_id"),
                condition=models.Q(("state", "limit")),
                name="pgjobs_hold_limit_line",
            ),
        ),
        migrations.AddIndex(
            model_name="hold",
            index=models.Index(
                models.F("rate_key"),
                models.OrderBy(models.F("priority"), descending=True),
                models.F("job_id"),
                condition=models.Q(("state", "rate")),
                name="pgjobs_hold_rate_line",
            ),
        ),
        migrations.AddIndex(
            model_name="hold",
            index=models.Index(
                models.F("opens_at"),
                condition=models.Q(("state", "rate")),
                name="pgjobs_hold_rate_due",
            ),
        ),
        migrations.AddConstraint(
            model_name="hold",
            constraint=models.UniqueConstraint(
                condition=models.Q(("lock__isnull", False), ("state", "place")),
                fields=("lock",),
                name="pgjobs_hold_lock_place",
            ),
        ),
        migrations.AddConstraint(
            model_name="hold",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("lock", ""), _negated=True),
                    models.Q(("limit_key", ""), _negated=True),
                    models.Q(("rate_key", ""), _negated=True),
                    models.Q(
                        ("lock__isnull", False),
                        ("limit_key__isnull", False),
                        ("rate_key__isnull", False),
                        _connector="OR",
                    ),
                ),
                name="pgjobs_hold_keys",
            ),
        ),
        migrations.AddConstraint(
            model_name="hold",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("limit_key__isnull", True), ("max_running__isnull", True)
                    ),
                    models.Q(
                        ("limit_key__isnull", False),
                        ("max_running__gte", 1),
                        ("max_running__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="pgjobs_hold_limit",
            ),
        ),
        migrations.AddConstraint(
            model_name="hold",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("rate_burst__isnull", True),
                        ("rate_interval__isnull", True),
                        ("rate_key__isnull", True),
                    ),
                    models.Q(
                        ("rate_burst__gte", 1),
                        ("rate_burst__isnull", False),
                        ("rate_interval__gt", 0),
                        ("rate_interval__isnull", False),
                        (
                            "rate_interval__lte",
                            3_153_600_000.0 / models.F("rate_burst"),
                        ),
                        ("rate_key__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="pgjobs_hold_rate",
            ),
        ),
        migrations.AddConstraint(
            model_name="hold",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["place", "later"]),
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
    ]
