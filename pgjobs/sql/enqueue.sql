-- Insert jobs. Their ids rise in the order given: the sequence is read after the sort.
-- A trigger makes those SCHEDULED whose time is to come (pgjobs_schedule_inserted).
-- statement_timestamp: now() stands still in a long transaction.
INSERT INTO pgjobs_job
    (task, args, kwargs, queue_name, priority, run_after, max_attempts, max_crashes, timeout)
SELECT task, args::jsonb, kwargs::jsonb, queue_name, priority,
       coalesce(run_after, statement_timestamp() + make_interval(secs => delay)),
       max_attempts, max_crashes, timeout
FROM unnest(
    %(tasks)s::text[], %(args)s::text[], %(kwargs)s::text[],
    %(queue_names)s::text[], %(priorities)s::smallint[],
    %(run_afters)s::timestamptz[], %(delays)s::double precision[],
    %(max_attempts)s::smallint[], %(max_crashes)s::smallint[],
    %(timeouts)s::double precision[]
) WITH ORDINALITY AS job (
    task, args, kwargs, queue_name, priority, run_after, delay,
    max_attempts, max_crashes, timeout, position
)
ORDER BY position
RETURNING id, status, run_after, enqueued_at
