-- Look at some jobs of a status that finished longer ago than an age, behind a position,
-- and delete those that nothing needs. Say how many went, whether more may follow, and
-- behind which job: NULL if there was none.
-- statement_timestamp: it stands still, so that the index ends the search.
-- SKIP LOCKED: several workers prune without waiting for each other.
-- WITH TIES: an index has the jobs in the order of this time. To order them by id as well,
-- PostgreSQL would read and sort all that are old, for each part again.
WITH near AS MATERIALIZED (
    SELECT id, finished_at FROM pgjobs_job
    WHERE status = %(status)s
        AND finished_at IS NOT NULL
        AND finished_at < statement_timestamp() - make_interval(secs => %(age)s)
        AND finished_at >= %(after_time)s
        AND (finished_at, id) > (%(after_time)s, %(after_id)s)
        AND (%(only)s::bigint[] IS NULL OR id = ANY (%(only)s::bigint[]))
        AND NOT id = ANY (%(skipped)s::bigint[])
    ORDER BY finished_at
    FETCH FIRST (%(limit)s) ROWS WITH TIES
),
seen AS MATERIALIZED (
    SELECT id, finished_at FROM near ORDER BY finished_at, id LIMIT %(limit)s
),
-- What jobs name that no admission has seen: they have no links yet. Where that many wait
-- for an admission, pruning waits, too.
unlinked AS MATERIALIZED (
    SELECT keys FROM pgjobs_job WHERE line = 'unlinked' LIMIT 10000
),
named (ids, all_seen) AS MATERIALIZED (
    SELECT ARRAY(
            SELECT each.id::bigint FROM unlinked
            CROSS JOIN LATERAL jsonb_array_elements_text(keys -> 'after') AS each (id)
        ),
        (SELECT count(*) FROM unlinked) < 10000
),
-- The last run of a schedule stays: people see there how it ended.
old AS MATERIALIZED (
    SELECT seen.id
    -- One look-up for each, however few jobs the planner expects.
    FROM seen CROSS JOIN LATERAL (
        SELECT FROM pgjobs_job AS job
        WHERE job.id = seen.id
            -- It may have been retried meanwhile, and have finished again. (For an
            -- equation the planner might take another index.)
            AND job.finished_at IS NOT DISTINCT FROM seen.finished_at
            AND job.line IS NULL  -- an admission has still to see that it ended
            AND NOT EXISTS (
                SELECT FROM pgjobs_schedule
                WHERE last_job_id IS NOT NULL AND last_job_id = job.id
                OFFSET 0  -- asked of each old job: no join with all schedules
            )
            -- Another job has still to learn how this one has ended.
            AND (SELECT all_seen FROM named)
            AND NOT job.id = ANY ((SELECT ids FROM named)::bigint[])
            AND NOT EXISTS (
                SELECT FROM pgjobs_predecessor
                WHERE predecessor_id = job.id AND is_open
                OFFSET 0
            )
            -- What the rest of its batch would say must not be better than what all said.
            AND (
                job.batch_id IS NULL
                OR job.status = 'SUCCESSFUL'
                OR NOT EXISTS (
                    SELECT FROM pgjobs_job AS other
                    WHERE other.batch_id = job.batch_id
                        AND (
                            other.status = 'SUCCESSFUL'
                            OR other.status = 'READY'
                            OR other.status = 'SCHEDULED'
                            OR other.status = 'WAITING'
                            OR other.status = 'RUNNING'
                            OR other.status = 'CANCELLED' AND job.status = 'FAILED'
                        )
                    OFFSET 0
                )
            )
            -- The retry of the job because of which it was cancelled would revive it.
            AND (
                job.status <> 'CANCELLED'
                OR job.blocked_by_id IS NULL
                OR NOT EXISTS (
                    SELECT FROM pgjobs_job AS culprit
                    WHERE culprit.id = job.blocked_by_id
                    OFFSET 0
                )
            )
            AND NOT /*referred*/ false  -- by other tables: see queue/references.py
            -- Or another one could be enqueued before the period is over.
            AND (
                job.unique_until IS NULL
                OR job.unique_until < clock_timestamp()
                OR NOT pgjobs_holds_key(
                    job.unique_for, job.unique_until, job.status, job.attempts,
                    job.finished_at
                )
            )
            -- Or what depends on it would have it done again.
            AND (
                job.dependencies IS NULL
                OR NOT EXISTS (
                    SELECT FROM pgjobs_prerequisite
                    WHERE job_id = job.id AND needed_until > clock_timestamp()
                )
            )
        FOR UPDATE SKIP LOCKED
    ) AS job
),
pruned AS (
    DELETE FROM pgjobs_job WHERE id = ANY (ARRAY(SELECT id FROM old))
    RETURNING id
),
last AS (
    SELECT finished_at, id FROM seen ORDER BY finished_at DESC, id DESC LIMIT 1
)
SELECT (SELECT count(*) FROM pruned), looked.number = %(limit)s, last.finished_at, last.id
FROM (SELECT count(*) AS number FROM seen) AS looked
LEFT JOIN last ON true
