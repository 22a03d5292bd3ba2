-- Insert many jobs that differ only in their arguments and keys.
-- Both come as JSON arrays, and the new rows return in groups, in most cases one.
-- An array of texts and a row for each job would take longer than to insert them. See
-- enqueue.sql for the rest.
WITH inserted AS (
    INSERT INTO pgjobs_job (kwargs, keys, $shared_columns, run_after, expires_at)
    SELECT kwargs, keys, $shared_parameters, $run_after, $expires_at
    FROM ROWS FROM (
            jsonb_array_elements(%(all_kwargs)s::jsonb),
            jsonb_array_elements(%(keys)s::jsonb)
        ) WITH ORDINALITY AS job (kwargs, keys, position)
    ORDER BY position
    RETURNING $returned
)
SELECT array_agg(id), array_agg(turn), $shared_returned
FROM inserted
GROUP BY $shared_returned
