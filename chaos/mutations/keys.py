"""Bugs of what holds jobs back: locks, limits, units, unique keys."""

from .bug import Bug

BUGS = [
    Bug(
        "the writer of a job lets it pass its lock",
        "two running in one lock",
        (
            ("WHEN NEW.keys ? 'lock' THEN 'lock'", ""),
            (
                "CREATE UNIQUE INDEX pgjobs_job_lock ON",
                "CREATE INDEX pgjobs_job_lock ON",
            ),
        ),
        "ordered,mutex",
    ),
    Bug(
        "the last in line is next",
        "order violated",
        (
            (
                """ORDER BY keys ->> 'lock', id LIMIT 1 ) AS first
                WHERE line = pgjobs_line('lock', lock)""",
                """ORDER BY keys ->> 'lock' DESC, id DESC LIMIT 1 ) AS first
                WHERE line = pgjobs_line('lock', lock)""",
            ),
            ("WHERE is_ordered AND first.id < job.id", "WHERE false"),
        ),
        "ordered",
    ),
    Bug(
        "the writer of a job lets it pass its limit",
        "limit exceeded",
        (("WHEN NEW.keys ? 'limit_key' THEN 'limit'", ""),),
        "limited",
    ),
    Bug(
        "a queue has always room for one more",
        "queue limit exceeded",
        (
            (
                "greatest( max_running - ( SELECT count(*) FROM pgjobs_job",
                "1 + greatest( max_running - max_running - ("
                " SELECT count(*) FROM pgjobs_job",
            ),
        ),
        "narrow_queue",
    ),
    Bug(
        "units in use are not counted",
        "units exceeded",
        (
            (
                "WHERE worker_id BETWEEN worker.first_id AND worker.last_id",
                "WHERE false",
            ),
        ),
        "weighty",
    ),
    Bug(
        "a unique key is given up when its job starts",
        "unique violated",
        (
            (
                "WHEN 'unfinished' THEN finished_at IS NULL",
                "WHEN 'unfinished' THEN finished_at IS NULL AND attempts = 0",
            ),
        ),
        "unique",
    ),
]
