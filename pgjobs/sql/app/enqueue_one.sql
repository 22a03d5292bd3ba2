-- Insert one job, as enqueue.sql inserts many.
-- Without arrays PostgreSQL plans it in half the time, and planning is most of what a
-- single enqueue costs the server.
INSERT INTO pgjobs_job ($columns, run_after, expires_at, keys)
SELECT $parameters,
    due,
    coalesce(
        %(expires_at)s::timestamptz,
        coalesce(due, statement_timestamp())
            + make_interval(secs => %(expires_in)s::float8)
    ),
    %(keys)s::jsonb -> 0
FROM (
    VALUES (
        coalesce(
            %(run_after)s::timestamptz,
            statement_timestamp() + make_interval(secs => %(delay)s::float8)
        )
    )
) AS time (due)
RETURNING $returned
