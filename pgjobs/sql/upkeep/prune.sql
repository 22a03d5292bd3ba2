-- Delete a batch of the finished jobs that are older than the age of their status.
-- SKIP LOCKED: several workers prune without waiting for each other.
-- The last run of a schedule stays, so that people see how it ended.
WITH old AS MATERIALIZED (
    SELECT job.id
    FROM (
        -- The time is read once: as a part of the condition it would be asked for each
        -- job that is kept, and no index knew the answer.
        SELECT status, clock_timestamp() - make_interval(secs => age) AS since
        FROM unnest(%(statuses)s::text[], %(ages)s::float8[]) AS given (status, age)
    ) AS kept
    CROSS JOIN LATERAL (
        SELECT id FROM pgjobs_job AS job
        WHERE job.status = kept.status
            AND job.finished_at IS NOT NULL
            AND job.finished_at < kept.since
            AND job.line IS NULL  -- else no admission has seen its end yet
            AND (%(only)s::bigint[] IS NULL OR job.id = ANY (%(only)s::bigint[]))
            AND NOT job.id = ANY (%(skipped)s::bigint[])
            AND NOT EXISTS (
                SELECT FROM pgjobs_schedule
                WHERE last_job_id IS NOT NULL AND last_job_id = job.id
                OFFSET 0  -- asked for each old job: no join with all schedules
            )
            AND NOT /*referred*/ false  -- by other tables: see queue/references.py
            -- Otherwise another job could get the key before the period is over.
            AND (
                job.unique_until IS NULL
                OR job.unique_until < clock_timestamp()
                OR NOT pgjobs_holds_key(
                    job.unique_for, job.unique_until, job.status, job.attempts,
                    job.finished_at
                )
            )
            -- Otherwise jobs that depend on it would have it done again.
            AND (
                job.dependencies IS NULL
                OR NOT EXISTS (
                    SELECT FROM pgjobs_prerequisite
                    WHERE job_id = job.id AND needed_until > clock_timestamp()
                )
            )
        ORDER BY job.finished_at
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) AS job
),
pruned AS (
    DELETE FROM pgjobs_job WHERE id = ANY (ARRAY(SELECT id FROM old))
    RETURNING id
)
SELECT count(*) FROM pruned
