"""The examples with which the help of each command ends."""

EXAMPLES = (
    (
        "enqueuejob",
        (
            "enqueuejob reports.generate month=2026-10 --queue slow",
            """enqueuejob shop.greet --args '{"name": "Ada"}' --run-after 15m""",
        ),
    ),
    (
        "importtasks",
        (
            "importtasks django-celery-beat --dry-run",
            "importtasks django-tasks-db",
        ),
    ),
    ("jobgroups", ("jobgroups", "jobgroups --viewer Support --operator Operations")),
    (
        "jobs",
        (
            "jobs list --status failed --since 1h",
            "jobs show 4711",
            "jobs retry --error ConnectionError --dry-run",
        ),
    ),
    (
        "jobs list",
        (
            "jobs list --status failed --queue mail --since 1h",
            "jobs list --task shop.charge_card --args customer_id=42",
            "jobs list --status running --json",
        ),
    ),
    ("jobs show", ("jobs show 4711", "jobs show 4711 --json")),
    ("jobs tail", ("jobs tail 4711", "jobs tail 4711 --lines 100")),
    ("jobs errors", ("jobs errors", "jobs errors --task shop.charge_card --json")),
    (
        "jobs retry",
        (
            "jobs retry --error ConnectionError --since 1h --dry-run",
            "jobs retry 4711 4712 --keep-steps",
        ),
    ),
    (
        "jobs cancel",
        (
            'jobs cancel 4711 --because "entered twice"',
            "jobs cancel --status ready --queue mail",
        ),
    ),
    (
        "jobs fail",
        (
            'jobs fail 4711 --because "the order is gone"',
            "jobs fail --status waiting --lock erp-7 --dry-run",
        ),
    ),
    (
        "jobs delete",
        (
            "jobs delete 4711",
            "jobs delete --status cancelled --task shop.charge_card --dry-run",
        ),
    ),
    ("jobs run", ("jobs run 4711", "jobs run --task reports.generate --dry-run")),
    (
        "jobs waits",
        ("jobs waits", "jobs waits --task shop.approve_order --limit 200"),
    ),
    (
        "jobs answer",
        (
            "jobs answer 4711 approve --value true",
            """jobs answer 4711 amount --value '{"paid": 12}'""",
        ),
    ),
    (
        "jobs mark-step",
        (
            "jobs mark-step 4711 charge --value null",
            """jobs mark-step 4711 charge --value '{"charge_id": "ch_1"}'""",
        ),
    ),
    (
        "jobstatus",
        (
            "jobstatus --watch",
            "jobstatus --check --max-latency 60s --max-failed 10",
            'jobstatus --acknowledge task_fails shop.charge --for 4h --note "known"',
        ),
    ),
    (
        "movejobs",
        ("""movejobs --from default --to eu --arguments '{"tenant_id": 42}'""",),
    ),
    ("pausejobs", ('pausejobs mail --note "provider is down"',)),
    (
        "pgjobsroles",
        ("pgjobsroles worker=jobs_worker web=jobs_web",),
    ),
    ("prunejobs", ("prunejobs", "prunejobs --older 72h --status successful")),
    (
        "queues",
        ("queues", 'queues limit mail 5 --note "10 connections"'),
    ),
    (
        "queues limit",
        (
            'queues limit mail 5 --note "the provider takes 5 connections"',
            "queues limit mail none",
        ),
    ),
    ("reencryptjobs", ("reencryptjobs",)),
    ("replayevents", ("replayevents --to shop.count_order --since 24h --dry-run",)),
    ("resumejobs", ("resumejobs mail reports",)),
    (
        "runjobs",
        (
            "runjobs --queues mail,default --threads 8",
            "runjobs --processes 4",
            "runjobs --drain",
        ),
    ),
    (
        "schedules",
        ("schedules", "schedules pause nightly-report", "schedules run nightly-report"),
    ),
    ("shardids", ("shardids --database eu --block 3",)),
    ("synctasks", ("synctasks", "synctasks --check")),
)
