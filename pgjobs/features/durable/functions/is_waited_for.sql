-- Return whether a wait of a job has taken the event, or may still take it.
CREATE OR REPLACE FUNCTION pgjobs_is_waited_for(awaited_event bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    awaited pgjobs_awaitedevent;
BEGIN
    SELECT * INTO awaited FROM pgjobs_awaitedevent WHERE event_id = awaited_event;
    IF awaited.event_id IS NULL THEN
        RETURN false;
    END IF;
    -- Life 0: see hand_on.sql.
    RETURN EXISTS (SELECT FROM pgjobs_wait WHERE event_id = awaited_event AND life > 0)
        OR EXISTS (
            SELECT FROM unnest(pgjobs_patterns(awaited.name)) AS pattern
            CROSS JOIN LATERAL (
                (
                    SELECT job_id FROM pgjobs_wait AS wait
                    WHERE wait.event = pattern AND aggregate_id IS NULL
                        AND ended_at IS NULL
                )
                UNION ALL
                (
                    SELECT job_id FROM pgjobs_wait AS wait
                    WHERE wait.event = pattern AND aggregate_id = awaited.aggregate_id
                        AND ended_at IS NULL
                )
            ) AS wait
            JOIN pgjobs_job AS job ON job.id = wait.job_id AND job.finished_at IS NULL
        )
        OR pgjobs_may_be_taken(
            awaited.name, (SELECT published_at FROM pgjobs_event WHERE id = awaited_event)
        );
END
$$;
