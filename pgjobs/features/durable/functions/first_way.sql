-- Return what a wait may take: the oldest of what is there, and what its step stores. Once
-- the job has asked, an answer comes first: the one who gave it was told that it counts. An
-- event that is not taken is there for the next wait.
CREATE OR REPLACE FUNCTION pgjobs_first_way(
    job pgjobs_job, wait_name text, ways jsonb,
    OUT label text, OUT answer jsonb, OUT event_id bigint, OUT stored jsonb,
    OUT since timestamptz
) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    SELECT way.label, there.answer || jsonb_build_object('label', way.label),
        there.event_id,
        CASE
            WHEN way.label IS NULL THEN there.stored
            WHEN there.stored IS NOT NULL
                THEN jsonb_build_object('label', way.label, 'value', there.stored)
        END,
        there.since
    INTO label, answer, event_id, stored, since
    FROM jsonb_to_recordset(ways) AS way (
        label text, kind text, event text, aggregate_id text, jobs jsonb
    )
    CROSS JOIN LATERAL (
        SELECT to_jsonb(given) AS answer, NULL::bigint AS event_id,
            given.value AS stored, given.answered_at AS since
        FROM pgjobs_answer AS given
        WHERE way.kind = 'answer' AND given.job_id = job.id AND given.life = job.life
            AND given.name = coalesce(way.label, wait_name)
        UNION ALL
        SELECT NULL, event.id, to_jsonb(event.id), event.published_at
        FROM (
            SELECT CASE
                WHEN way.kind = 'event'
                    THEN pgjobs_event_for(job, way.event, way.aggregate_id)
            END AS found_id
        ) AS event_found
        JOIN pgjobs_event AS event ON event.id = found_id
        UNION ALL
        SELECT NULL, NULL, ends.value, ends.since
        FROM pgjobs_ends_of(way.jobs) AS ends
        WHERE way.kind = 'jobs' AND ends.value IS NOT NULL
    ) AS there
    ORDER BY
        there.answer IS NULL AND EXISTS (
            SELECT FROM pgjobs_wait AS wait
            WHERE wait.job_id = job.id AND wait.life = job.life AND wait.name = wait_name
        ),
        there.since, way.label
    LIMIT 1;
END
$$;
