-- Insert many jobs that differ only in their arguments, and that nothing holds back.
-- These come as one JSON array, and the new rows return in groups, in most cases one.
-- An array of texts and a row for each job would take longer than to insert them. See
-- enqueue.sql for the rest.
WITH inserted AS (
    INSERT INTO pgjobs_job (kwargs, $shared_columns)
    SELECT kwargs, $shared_parameters
    FROM jsonb_array_elements(%(all_kwargs)s::jsonb)
        WITH ORDINALITY AS job (kwargs, position)
    ORDER BY position
    RETURNING id, turn, status, run_after, expires_at, enqueued_at, waiting_for, line
)
SELECT array_agg(id), array_agg(turn), status, run_after, expires_at, enqueued_at,
    waiting_for, line
FROM inserted
GROUP BY status, run_after, expires_at, enqueued_at, waiting_for, line
