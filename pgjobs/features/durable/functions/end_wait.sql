-- End a wait of a job: mark its step, and store which way it ended and which event it took,
-- as pgjobs_first_way has found. Return false, and change nothing, if the step is marked
-- already. A wait that found it at once has no rows yet. It needs them for an event, and for
-- its labels, by which no answer counts any more. A deploy may have added one.
CREATE OR REPLACE FUNCTION pgjobs_end_wait(
    job pgjobs_job, wait_name text, ways jsonb, taken record
) RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    number integer;
BEGIN
    INSERT INTO pgjobs_step (job_id, life, name, return_value, attempt, finished_at)
    VALUES (job.id, job.life, wait_name, taken.stored, job.attempts, clock_timestamp())
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE pgjobs_wait
    SET ended_at = clock_timestamp(),
        event_id = CASE WHEN label = coalesce(taken.label, '') THEN taken.event_id END
    WHERE job_id = job.id AND life = job.life AND name = wait_name;
    GET DIAGNOSTICS number = ROW_COUNT;
    IF number < jsonb_array_length(ways)
        AND coalesce(taken.label, taken.event_id::text) IS NOT NULL
    THEN
        INSERT INTO pgjobs_wait (
            job_id, life, name, label, kind, event, aggregate_id, deadline, ended_at,
            event_id
        )
        SELECT job.id, job.life, wait_name, coalesce(label, ''), kind, event,
            aggregate_id, clock_timestamp(), clock_timestamp(),
            CASE WHEN label IS NOT DISTINCT FROM taken.label THEN taken.event_id END
        FROM jsonb_to_recordset(ways) AS way (
            label text, kind text, event text, aggregate_id text
        )
        -- Not of any: no event is taken twice.
        ON CONFLICT (job_id, life, name, label) DO NOTHING;
    END IF;
    DELETE FROM pgjobs_waitnote
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_waitnote WHERE job_id = job.id FOR UPDATE SKIP LOCKED
    ));
    IF ways @? '$[*] ? (@.kind == "jobs")' THEN
        PERFORM pgjobs_drop_waited_links(ARRAY[job.id]);
    END IF;
    RETURN true;
END
$$;
