-- Insert jobs. Their ids rise in the order given: the sequence is read after the sort.
-- A trigger makes jobs SCHEDULED whose time has not come, and jobs WAITING that a
-- worker has to admit (pgjobs_queue_inserted). The marks stand for lists of columns:
-- see columns.py. The keys are one JSON array, which is faster to send than an array of
-- JSON. statement_timestamp: in a long transaction now() stands still.
INSERT INTO pgjobs_job ($columns, run_after, expires_at, keys)
SELECT $values,
    due,
    coalesce(
        expires_at,
        coalesce(due, statement_timestamp()) + make_interval(secs => expires_in)
    ),
    nullif(%(keys)s::jsonb -> (position - 1)::integer, 'null')
FROM unnest(
    $arrays,
    %(run_after)s::timestamptz[], %(delay)s::double precision[],
    %(expires_at)s::timestamptz[], %(expires_in)s::double precision[]
) WITH ORDINALITY AS job (
    $columns, run_after, delay, expires_at, expires_in, position
)
CROSS JOIN LATERAL (
    VALUES (coalesce(run_after, statement_timestamp() + make_interval(secs => delay)))
) AS time (due)
ORDER BY position
RETURNING $returned
