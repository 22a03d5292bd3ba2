-- Insert jobs. Their ids rise in the order given: the sequence is read after the sort.
-- A trigger makes those SCHEDULED whose time is to come, and those WAITING that a worker
-- has to admit (pgjobs_queue_inserted).
-- An array that is shorter than the others has one value for all (transitions.once).
-- The keys are one JSON array, which is quicker to send than an array of JSON.
-- statement_timestamp: now() stands still in a long transaction.
INSERT INTO pgjobs_job
    (task, args, kwargs, queue_name, priority, run_after, max_attempts, max_crashes,
     timeout, expires_at, process_units, keys, dependencies)
SELECT coalesce(task, (%(tasks)s::text[])[1]),
       coalesce(args, (%(args)s::text[])[1])::jsonb,
       kwargs::jsonb,
       coalesce(queue_name, (%(queue_names)s::text[])[1]),
       coalesce(priority, (%(priorities)s::smallint[])[1]),
       due,
       coalesce(max_attempts, (%(max_attempts)s::smallint[])[1]),
       coalesce(max_crashes, (%(max_crashes)s::smallint[])[1]),
       timeout,
       coalesce(
           expires_at,
           coalesce(due, statement_timestamp()) + make_interval(secs => expires_in)
       ),
       process_units, nullif(%(keys)s::jsonb -> (position - 1)::integer, 'null'),
       dependencies
FROM unnest(
    %(tasks)s::text[], %(args)s::text[], %(kwargs)s::text[],
    %(queue_names)s::text[], %(priorities)s::smallint[],
    %(run_afters)s::timestamptz[], %(delays)s::double precision[],
    %(max_attempts)s::smallint[], %(max_crashes)s::smallint[],
    %(timeouts)s::double precision[], %(expires_ats)s::timestamptz[],
    %(expires_ins)s::double precision[], %(process_units)s::bigint[],
    %(dependencies)s::jsonb[]
) WITH ORDINALITY AS job (
    task, args, kwargs, queue_name, priority, run_after, delay,
    max_attempts, max_crashes, timeout, expires_at, expires_in, process_units,
    dependencies, position
)
CROSS JOIN LATERAL (
    VALUES (coalesce(run_after, statement_timestamp() + make_interval(secs => delay)))
) AS time (due)
ORDER BY position
RETURNING id, turn, status, run_after, expires_at, enqueued_at, waiting_for, line
