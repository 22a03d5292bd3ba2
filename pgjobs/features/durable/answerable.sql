-- The oldest waits of jobs that ask for one of these permissions and have no answer yet,
-- not by another of their labels either. Of each permission no more are read than asked
-- for, but for waits of jobs that ended while a worker had them: those keep their open rows
-- for a while. Only the index of what is asked has this order. OFFSET 0 lets PostgreSQL look
-- jobs and answers up one by one.
SELECT wait.id
FROM unnest(%(permissions)s::text[]) AS needed (permission)
CROSS JOIN LATERAL (
    SELECT id, opened_at FROM pgjobs_wait AS asking
    WHERE ended_at IS NULL AND asking.permission = needed.permission
        AND EXISTS (
            SELECT FROM pgjobs_job
            WHERE id = asking.job_id AND life = asking.life AND finished_at IS NULL
            OFFSET 0
        )
        AND NOT EXISTS (
            SELECT FROM pgjobs_wait AS other
            CROSS JOIN LATERAL (
                SELECT FROM pgjobs_answer
                WHERE job_id = asking.job_id AND life = asking.life
                    AND name = coalesce(nullif(other.label, ''), other.name)
                OFFSET 0
            ) AS answer
            WHERE other.job_id = asking.job_id AND other.life = asking.life
                AND other.name = asking.name
            OFFSET 0
        )
    ORDER BY opened_at, id
    LIMIT %(limit)s
) AS wait
ORDER BY opened_at, id
LIMIT %(limit)s
