-- Give jobs that hold these unique keys other arguments and another time, unless they
-- have started. Of several jobs for one key the last one counts. Locks, limits and rates
-- follow from the arguments, so they are replaced, too. Other options stay as they are.
-- The notification: a job that stays SCHEDULED may be due earlier than workers know.
WITH wanted AS (
    SELECT DISTINCT ON (unique_key, unique_for) *,
        nullif(%(keys)s::jsonb -> (position - 1)::integer, 'null') AS keys
    FROM unnest(
        $arrays,
        %(run_after)s::timestamptz[], %(delay)s::double precision[],
        %(expires_at)s::timestamptz[], %(expires_in)s::double precision[],
        %(unique_key)s::text[], %(unique_for)s::text[]
    ) WITH ORDINALITY AS job (
        $columns, run_after, delay, expires_at, expires_in,
        unique_key, unique_for, position
    )
    ORDER BY unique_key, unique_for, position DESC
),
held AS MATERIALIZED (
    SELECT job.id, wanted.args, wanted.kwargs, wanted.keys, wanted.dependencies,
        wanted.meta,
        due AS run_after,
        coalesce(
            wanted.expires_at,
            coalesce(due, statement_timestamp())
                + make_interval(secs => wanted.expires_in)
        ) AS expires_at
    FROM wanted
    CROSS JOIN LATERAL (
        VALUES (
            coalesce(
                wanted.run_after,
                statement_timestamp() + make_interval(secs => wanted.delay)
            )
        )
    ) AS time (due)
    JOIN pgjobs_job AS job
        ON job.unique_key = wanted.unique_key AND job.unique_for = wanted.unique_for
    WHERE pgjobs_holds_key(
            job.unique_for, job.unique_until, job.status, job.attempts, job.finished_at
        )
        AND job.status IN ('READY', 'SCHEDULED', 'WAITING')
        AND job.attempts = 0
    ORDER BY job.id
    FOR NO KEY UPDATE OF job
),
-- Other arguments may have other dependencies.
forgotten AS (
    DELETE FROM pgjobs_predecessor AS link USING held
    WHERE link.job_id = held.id AND link.needs = 'dependency'
)
UPDATE pgjobs_job AS job
SET args = coalesce(held.args, (%(args)s::text[])[1])::jsonb,
    kwargs = held.kwargs::jsonb,
    dependencies = held.dependencies,
    meta = coalesce(held.meta, (%(meta)s::text[])[1])::jsonb,
    -- What comes before and after the job stays.
    keys = nullif(
        coalesce(held.keys, '{}') - %(link_keys)s::text[] || coalesce(
            (
                SELECT jsonb_object_agg(key, value) FROM jsonb_each(job.keys)
                WHERE key = ANY (%(link_keys)s::text[])
            ),
            '{}'
        ),
        '{}'::jsonb
    ),
    run_after = held.run_after,
    expires_at = held.expires_at,
    status = CASE
        WHEN held.run_after > statement_timestamp() THEN 'SCHEDULED' ELSE 'READY'
    END,
    waiting_for = NULL,
    blocked_by_id = NULL
FROM held
WHERE job.id = held.id
RETURNING job.id, pg_notify('pgjobs', job.queue_name)
