-- Give the jobs that hold these unique keys other arguments and another time, unless
-- they have started. Return the ids of the jobs that this changed. No key stands twice in
-- the arrays.
--
-- Locks, limits and rates follow from the arguments, so they are replaced, too. Other
-- options stay as they are. Dependencies that are NULL are made by a worker.
CREATE OR REPLACE FUNCTION pgjobs_replace_held(
    unique_keys text[], unique_fors text[], args jsonb[], kwargs jsonb[], keys jsonb[],
    dependencies jsonb[], run_after timestamptz[], expires_at timestamptz[],
    meta jsonb[]
) RETURNS SETOF bigint LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    -- One look-up for each key, however few jobs the planner expects.
    WITH found AS MATERIALIZED (
        SELECT new.*, (
                SELECT id FROM pgjobs_job AS job
                WHERE job.unique_key = new.unique_key
                    AND job.unique_for = new.unique_for
                    AND pgjobs_holds_key(
                        job.unique_for, job.unique_until, job.status, job.attempts,
                        job.finished_at
                    )
            ) AS id
        FROM unnest(
            unique_keys, unique_fors, args, kwargs, keys, dependencies, run_after,
            expires_at, meta
        ) AS new (
            unique_key, unique_for, args, kwargs, keys, dependencies, run_after,
            expires_at, meta
        )
    ),
    held AS MATERIALIZED (
        SELECT id FROM pgjobs_job AS job
        WHERE id = ANY (ARRAY(SELECT id FROM found))
            AND pgjobs_holds_key(
                job.unique_for, job.unique_until, job.status, job.attempts,
                job.finished_at
            )
            AND job.status IN ('READY', 'SCHEDULED', 'WAITING')
            AND job.attempts = 0
        ORDER BY id
        FOR NO KEY UPDATE
    ),
    -- Other arguments may have other dependencies.
    forgotten AS (
        DELETE FROM pgjobs_predecessor
        WHERE job_id = ANY (ARRAY(SELECT id FROM held)) AND needs = 'dependency'
    ),
    -- What comes before and after the job stays.
    links (names) AS (
        VALUES (
            ARRAY[
                'after', 'after_batches', 'needs', 'batch_id', 'has_successors', 'place'
            ]
        )
    ),
    replaced AS (
        UPDATE pgjobs_job AS job
        SET waiting_for = NULL,
            blocked_by_id = NULL,
            (args, kwargs, dependencies, meta, keys, run_after, expires_at, status) = (
                SELECT new.args, new.kwargs, new.dependencies, new.meta,
                    nullif(
                        coalesce(new.keys, '{}') - names || coalesce(
                            (
                                SELECT jsonb_object_agg(key, value)
                                FROM jsonb_each(job.keys) WHERE key = ANY (names)
                            ),
                            '{}'
                        ),
                        '{}'
                    ),
                    new.run_after, new.expires_at,
                    CASE
                        WHEN new.run_after > statement_timestamp() THEN 'SCHEDULED'
                        ELSE 'READY'
                    END
                FROM found AS new CROSS JOIN links WHERE new.id = job.id
            )
        WHERE id = ANY (ARRAY(SELECT id FROM held))
        RETURNING job.id, job.queue_name
    )
    -- A job that stays SCHEDULED may be due earlier than workers know.
    SELECT id FROM replaced CROSS JOIN LATERAL pg_notify('pgjobs', queue_name)
$$;
