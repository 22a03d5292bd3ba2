"""Take over the schedules and waiting jobs of other queues: `manage.py importtasks`.

A source runs in one transaction, which makes the row here and ends it there. So it can
be repeated, and each job or schedule is taken once. What cannot be taken stays there,
with the reason.

Guide: `docs/migrating/`.
"""
