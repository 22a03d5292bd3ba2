-- Return of each circle which these jobs close that wait for others the one job that shall
-- ask again, and is refused: the newest that waits for jobs. Each has asked before it could
-- see that the others wait. Whoever looks last sees all of them wait, and of several who do
-- all find the same job.
--
-- Only a job for which something may wait can close one. So few are looked at.
CREATE OR REPLACE FUNCTION pgjobs_closing_circles(ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    most CONSTANT integer := 1000;
BEGIN
    IF ids IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT DISTINCT refused.id
        FROM pgjobs_job AS job
        JOIN pgjobs_wait AS wait
            ON wait.job_id = job.id AND wait.life = job.life AND wait.ended_at IS NULL
        CROSS JOIN LATERAL (
            SELECT other.id FROM pgjobs_job AS other
            WHERE other.id = ANY (pgjobs_circle_with(
                    job.id, ARRAY(SELECT jsonb_array_elements_text(asked)::bigint), most
                ))
                AND other.status || '' = 'WAITING' AND other.waiting_for = 'jobs'
            ORDER BY other.id DESC LIMIT 1
        ) AS refused
        WHERE job.id = ANY (ids) AND job.status || '' = 'WAITING'
            AND job.waiting_for = 'jobs' AND wait.kind = 'jobs'
            AND (
                job.batch_id IS NOT NULL OR job.keys ?| ARRAY['lock', 'has_successors']
                OR EXISTS (
                    SELECT FROM pgjobs_predecessor AS link
                    WHERE link.predecessor_id = job.id AND link.is_open
                    OFFSET 0
                )
            )
    );
END
$$;
