-- Why a part of the old jobs of a status, behind a position, is not pruned: {reason: number}
-- with the first reason of each job. See prune.sql. Say whether more may follow, and behind
-- which job: NULL if there was none.
WITH near AS MATERIALIZED (
    SELECT id, finished_at FROM pgjobs_job
    WHERE status = %(status)s
        AND finished_at IS NOT NULL
        AND finished_at < statement_timestamp() - make_interval(secs => %(age)s)
        AND finished_at >= %(after_time)s
        AND (finished_at, id) > (%(after_time)s, %(after_id)s)
    ORDER BY finished_at
    FETCH FIRST (%(limit)s) ROWS WITH TIES
),
seen AS MATERIALIZED (
    SELECT id, finished_at FROM near ORDER BY finished_at, id LIMIT %(limit)s
),
-- What jobs name that no admission has seen: they have no links yet.
named AS MATERIALIZED (
    SELECT each.id::bigint FROM (
        SELECT keys FROM pgjobs_job WHERE line = 'unlinked' LIMIT 10000
    ) AS unlinked
    CROSS JOIN LATERAL jsonb_array_elements_text(keys -> 'after') AS each (id)
),
kept AS (
    SELECT why.reason, count(*) AS number
    FROM seen CROSS JOIN LATERAL (
        SELECT CASE
            WHEN /*referred*/ false THEN NULL  -- told by their tables
            WHEN line IS NOT NULL THEN 'admission'
            WHEN EXISTS (
                SELECT FROM pgjobs_schedule
                WHERE last_job_id IS NOT NULL AND last_job_id = job.id
                OFFSET 0
            ) THEN 'schedule'
            WHEN unique_until IS NOT NULL AND unique_until >= clock_timestamp()
                AND pgjobs_holds_key(
                    unique_for, unique_until, status, attempts, finished_at
                ) THEN 'unique'
            WHEN dependencies IS NOT NULL AND EXISTS (
                SELECT FROM pgjobs_prerequisite
                WHERE job_id = job.id AND needed_until > clock_timestamp()
            ) THEN 'dependency'
            WHEN EXISTS (
                SELECT FROM pgjobs_predecessor WHERE predecessor_id = job.id AND is_open
                OFFSET 0
            ) OR job.id IN (SELECT id FROM named) THEN 'successor'
            WHEN batch_id IS NOT NULL AND status <> 'SUCCESSFUL' AND EXISTS (
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
            ) THEN 'batch'
            WHEN status = 'CANCELLED' AND blocked_by_id IS NOT NULL AND EXISTS (
                SELECT FROM pgjobs_job AS culprit
                WHERE culprit.id = job.blocked_by_id
                OFFSET 0
            ) THEN 'retry'
        END AS reason
        FROM pgjobs_job AS job
        WHERE job.id = seen.id AND job.finished_at IS NOT DISTINCT FROM seen.finished_at
        OFFSET 0  -- one look-up for each, however few jobs the planner expects
    ) AS why
    WHERE why.reason IS NOT NULL
    GROUP BY why.reason
),
last AS (
    SELECT finished_at, id FROM seen ORDER BY finished_at DESC, id DESC LIMIT 1
)
SELECT (SELECT coalesce(jsonb_object_agg(reason, number), '{}')::text FROM kept),
    looked.number = %(limit)s, last.finished_at, last.id
FROM (SELECT count(*) AS number FROM seen) AS looked
LEFT JOIN last ON true
