-- Return those of these jobs that wait, and whose wait may end: an answer is there, an
-- event, the ends of all jobs, or the end of the time.
CREATE OR REPLACE FUNCTION pgjobs_found_something(ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF ids IS NULL THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT job.id FROM pgjobs_job AS job
        WHERE job.id = ANY (ids) AND job.status || '' = 'WAITING'
            AND EXISTS (
                SELECT FROM pgjobs_wait AS wait
                WHERE wait.job_id = job.id AND wait.life = job.life
                    AND wait.ended_at IS NULL
                    AND (
                        wait.deadline <= clock_timestamp()
                        OR CASE wait.kind
                            WHEN 'answer' THEN EXISTS (
                                SELECT FROM pgjobs_answer AS answer
                                WHERE answer.job_id = job.id AND answer.life = job.life
                                    AND answer.name
                                        = coalesce(nullif(wait.label, ''), wait.name)
                            )
                            WHEN 'event' THEN pgjobs_event_for(
                                job, wait.event, wait.aggregate_id
                            ) IS NOT NULL
                            WHEN 'jobs' THEN (
                                SELECT value FROM pgjobs_ends_of(wait.asked)
                            ) IS NOT NULL
                        END
                    )
                OFFSET 0  -- asked for each: few rows belong to a job
            )
    );
END
$$;
