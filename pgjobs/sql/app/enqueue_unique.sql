-- Insert jobs as enqueue.sql does, but not those whose unique key another job holds.
-- Waits for a transaction that has inserted such a job and may yet be rolled back. The
-- ids and turns rise in the order given; the rows come in the order of their keys, so
-- that two of these statements never wait for each other.
WITH job AS MATERIALIZED (
    SELECT nextval('pgjobs_job_id_seq') AS id, nextval('pgjobs_turn') AS turn, given.*,
        nullif(%(keys)s::jsonb -> (position - 1)::integer, 'null') AS keys
    FROM (
        SELECT * FROM unnest(
            %(tasks)s::text[], %(args)s::text[], %(kwargs)s::text[],
            %(queue_names)s::text[], %(priorities)s::smallint[],
            %(run_afters)s::timestamptz[], %(delays)s::double precision[],
            %(max_attempts)s::smallint[], %(max_crashes)s::smallint[],
            %(timeouts)s::double precision[], %(expires_ats)s::timestamptz[],
            %(expires_ins)s::double precision[], %(process_units)s::bigint[],
            %(unique_keys)s::text[], %(unique_fors)s::text[], %(periods)s::double precision[],
            %(dependencies)s::jsonb[]
        ) WITH ORDINALITY AS job (
            task, args, kwargs, queue_name, priority, run_after, delay,
            max_attempts, max_crashes, timeout, expires_at, expires_in, process_units,
            unique_key, unique_for, period, dependencies, position
        )
        ORDER BY position
    ) AS given
),
inserted AS (
    INSERT INTO pgjobs_job
        (id, turn, task, args, kwargs, queue_name, priority, run_after, max_attempts,
         max_crashes, timeout, expires_at, process_units, unique_key, unique_for,
         unique_until, keys, dependencies)
    SELECT id, turn, coalesce(task, (%(tasks)s::text[])[1]),
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
        process_units, unique_key, unique_for,
        statement_timestamp() + make_interval(secs => period),
        keys, dependencies
    FROM job
    CROSS JOIN LATERAL (
        VALUES (
            coalesce(run_after, statement_timestamp() + make_interval(secs => delay))
        )
    ) AS time (due)
    ORDER BY unique_key, unique_for, position
    ON CONFLICT (unique_key, unique_for)
        WHERE unique_key IS NOT NULL
            AND pgjobs_holds_key(
                unique_for, unique_until, status, attempts, finished_at
            )
        DO NOTHING
    RETURNING id, status, run_after, expires_at, enqueued_at, unique_until,
        waiting_for, line
)
SELECT job.position - 1, inserted.unique_until, job.id, job.turn, inserted.status,
    inserted.run_after, inserted.expires_at, inserted.enqueued_at,
    inserted.waiting_for, inserted.line
FROM inserted JOIN job ON job.id = inserted.id
ORDER BY job.position
