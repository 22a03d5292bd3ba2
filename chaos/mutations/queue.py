"""Bugs of the queue: what comes in, and what is seen of it."""

from .bug import Bug

BUGS = [
    Bug(
        "a schedule moves on by two ticks",
        "tick never fired",
        (
            (
                "SET next_run_at = won.next_run_at,",
                "SET next_run_at = won.next_run_at + interval '2 s',",
            ),
        ),
    ),
    Bug(
        "a tick makes two jobs",
        "tick fired twice",
        (
            (
                "FROM moved LEFT JOIN tick ON tick.schedule_id = moved.id",
                """FROM moved LEFT JOIN tick ON tick.schedule_id = moved.id
                CROSS JOIN generate_series(1, 2)""",
            ),
        ),
    ),
    Bug(
        "an event reaches its first subscriber only",
        "delivery missing",
        (
            (
                "ORDER BY event.id, handler.id ) AS given",
                "ORDER BY event.id, handler.id LIMIT 1 ) AS given",
            ),
        ),
        "event",
    ),
    Bug(
        "the claim does not see the lowest priority",
        "stuck",
        (
            (
                "AND priority BETWEEN lowest AND highest AND turn >= first_turn",
                "AND priority BETWEEN lowest AND highest AND turn >= first_turn\n"
                "AND priority > -100",
            ),
            # Where workers with units, or with many queues, fetch.
            (
                "AND (priority, -turn) > (last_priority, -last_turn)",
                "AND (priority, -turn) > (last_priority, -last_turn)\n"
                "AND priority > -100",
            ),
        ),
        "plain,least",
    ),
    Bug(
        "the claim leaves the lowest priority for later",
        "overlooked",
        (
            (
                "AND priority BETWEEN lowest AND highest AND turn >= first_turn",
                "AND priority BETWEEN lowest AND highest AND turn >= first_turn\n"
                "AND (priority > -100\n"
                "OR enqueued_at < clock_timestamp() - interval '8 s')",
            ),
            (
                "AND (priority, -turn) > (last_priority, -last_turn)",
                "AND (priority, -turn) > (last_priority, -last_turn)\n"
                "AND (priority > -100\n"
                "OR enqueued_at < clock_timestamp() - interval '8 s')",
            ),
        ),
        "plain,least",
    ),
    Bug(
        "what is scheduled is never due",
        "stuck",
        (
            (
                "WHERE status = 'SCHEDULED' AND run_after <= statement_timestamp()\n"
                "AND (%(only)s",
                "WHERE status = 'SCHEDULED' AND run_after <= '1999-01-01'\n"
                "AND (%(only)s",
            ),
        ),
        "plain,later",
    ),
    Bug(
        "a job is inserted beside its transaction",
        "phantom",
        (
            (
                """with connections[database].cursor() as cursor:
                cursor.execute(sql, parameters)""",
                "with connections[database].copy().cursor() as cursor:\n"
                "        cursor.execute(sql, parameters)",
            ),
        ),
        "plain",
        "none",
        20,
    ),
    Bug(
        "the last of many jobs is not inserted",
        "lost",
        (
            (
                "jobs = insert_plain(model, database, new_jobs) if new_jobs else []",
                "jobs = insert_plain(model, database, new_jobs[:-1])",
            ),
        ),
        "several",
    ),
    Bug(
        "an event makes two jobs for each subscriber",
        "delivery doubled",
        (
            (
                """FROM unnest(events) AS event
                CROSS JOIN LATERAL""",
                """FROM unnest(events) AS event CROSS JOIN generate_series(1, 2)
                CROSS JOIN LATERAL""",
            ),
            (
                "FROM wanted JOIN delivery ON delivery.job_id = wanted.job_id",
                "FROM wanted",
            ),
        ),
        "event",
    ),
]
