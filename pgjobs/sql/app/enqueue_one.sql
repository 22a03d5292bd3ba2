-- Insert one job, as enqueue.sql does many: without arrays PostgreSQL plans it in half
-- the time, which is most of what a single enqueue costs the server.
INSERT INTO pgjobs_job
    (task, args, kwargs, queue_name, priority, run_after, max_attempts, max_crashes,
     timeout, expires_at, process_units, keys, dependencies)
SELECT %(tasks)s, %(args)s::jsonb, %(kwargs)s::jsonb, %(queue_names)s, %(priorities)s,
    due, %(max_attempts)s, %(max_crashes)s, %(timeouts)s::float8,
    coalesce(
        %(expires_ats)s::timestamptz,
        coalesce(due, statement_timestamp())
            + make_interval(secs => %(expires_ins)s::float8)
    ),
    %(process_units)s::bigint, %(keys)s::jsonb -> 0, %(dependencies)s::jsonb
FROM (
    VALUES (
        coalesce(
            %(run_afters)s::timestamptz,
            statement_timestamp() + make_interval(secs => %(delays)s::float8)
        )
    )
) AS time (due)
RETURNING id, turn, status, run_after, expires_at, enqueued_at, waiting_for, line
