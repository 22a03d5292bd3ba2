-- Insert many jobs that differ only in their arguments and keys.
-- Both come as JSON arrays, and the new rows return in groups, in most cases one.
-- An array of texts and a row for each job would take longer than to insert them. See
-- enqueue.sql for the rest.
WITH inserted AS (
    INSERT INTO pgjobs_job (kwargs, keys, $shared_columns, run_after, expires_at)
    SELECT kwargs, keys, $shared_parameters,
        due,
        coalesce(
            %(expires_at)s::timestamptz,
            coalesce(due, statement_timestamp())
                + make_interval(secs => %(expires_in)s::float8)
        )
    FROM ROWS FROM (
            jsonb_array_elements(%(all_kwargs)s::jsonb),
            jsonb_array_elements(%(keys)s::jsonb)
        ) WITH ORDINALITY AS job (kwargs, keys, position)
    CROSS JOIN LATERAL (
        VALUES (
            coalesce(
                %(run_after)s::timestamptz,
                statement_timestamp() + make_interval(secs => %(delay)s::float8)
            )
        )
    ) AS time (due)
    ORDER BY position
    RETURNING $returned
)
SELECT array_agg(id), array_agg(turn), $shared_returned
FROM inserted
GROUP BY $shared_returned
