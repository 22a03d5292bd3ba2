-- End a wait of a job: store which way it ended, and which event it took. A wait that
-- found it at once has no rows yet. It needs them for an event, and for its labels, by
-- which no answer counts any more.
CREATE OR REPLACE FUNCTION pgjobs_end_wait(
    job pgjobs_job, wait_name text, ways jsonb, taken_label text, taken_event bigint
) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF coalesce(taken_label, taken_event::text) IS NOT NULL THEN
        INSERT INTO pgjobs_wait AS wait
            (job_id, life, name, label, kind, event, aggregate_id, deadline)
        SELECT job.id, job.life, wait_name, coalesce(way.label, ''), way.kind, way.event,
            way.aggregate_id, clock_timestamp()
        FROM jsonb_to_recordset(ways) AS way (
            label text, kind text, event text, aggregate_id text
        )
        ON CONFLICT DO NOTHING;
    END IF;
    UPDATE pgjobs_wait
    SET ended_at = clock_timestamp(),
        event_id = CASE WHEN label = coalesce(taken_label, '') THEN taken_event END
    WHERE job_id = job.id AND life = job.life AND name = wait_name;
    DELETE FROM pgjobs_waitnote
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_waitnote WHERE job_id = job.id FOR UPDATE SKIP LOCKED
    ));
    IF ways @? '$[*] ? (@.kind == "jobs")' THEN
        PERFORM pgjobs_drop_waited_links(ARRAY[job.id]);
    END IF;
END
$$;
