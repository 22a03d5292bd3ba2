"""Bugs of jobs that wait: answers that are lost, taken twice or overlooked."""

from .bug import Bug

BUGS = [
    Bug(
        "a second answer is told that it counts",
        "answer lost",
        (
            (
                """ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF NOT asked.has_asked""",
                """ON CONFLICT DO NOTHING;
    IF NOT asked.has_asked""",
            ),
        ),
        "waits",
        "none",
        20,
    ),
    Bug(
        "a job that goes on hands on what it has taken",
        "answer taken twice",
        (
            (
                """AND NOT EXISTS (
            SELECT FROM pgjobs_wait AS wait
            WHERE wait.job_id = old.id AND wait.life = old.life
                AND ended_at IS NOT NULL
                AND coalesce(nullif(label, ''), wait.name) = answer.name
        )
        AND NOT EXISTS (
            SELECT FROM pgjobs_step AS step
            WHERE step.job_id = old.id AND step.life = old.life
                AND step.name = answer.name
        )""",
                "",
            ),
        ),
        "waits",
        "none",
        20,
    ),
    Bug(
        "an answer wakes nobody, and leaves no note",
        "answer overlooked",
        (
            (
                """IF NOT asked.has_asked OR current_setting('transaction_isolation')
            <> 'read committed'
        OR (SELECT woken FROM pgjobs_let_go_on(ARRAY[job])) = 0
    THEN""",
                "IF false THEN",
            ),
        ),
        "waits",
        "none",
        20,
    ),
    Bug(
        "a claim forgets which event it has taken",
        "answer taken twice",
        (
            (
                "PERFORM pgjobs_end_wait(job, asks.name, asks.ways, taken);",
                """PERFORM pgjobs_end_wait(job, asks.name, asks.ways, taken);
            UPDATE pgjobs_wait SET event_id = NULL
            WHERE job_id = job.id AND life = job.life AND name = asks.name;""",
            ),
        ),
        "waits",
        "none",
        20,
    ),
    Bug(
        "a claim takes an answer and brings none",
        "answer lost",
        (
            (
                "PERFORM pgjobs_end_wait(job, asks.name, asks.ways, taken);",
                """PERFORM pgjobs_end_wait(job, asks.name, asks.ways, taken);
            UPDATE pgjobs_step SET return_value = NULL
            WHERE job_id = job.id AND life = job.life AND name = asks.name;""",
            ),
        ),
        "waits",
        "none",
        20,
    ),
    Bug(
        "a wait is over when it begins",
        "wait over too early",
        (("coalesce(first_deadline, ends_at)", "clock_timestamp()"),),
        "waits",
        "none",
        20,
    ),
    Bug(
        "a job that goes on as another one has ended",
        "succession ended twice",
        (("|| jsonb_build_object('continued_as', successor)", ""),),
        "waits",
        "none",
        20,
    ),
]
