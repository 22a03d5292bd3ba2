-- Find out which of the jobs are of a task or have a key that is paused. They leave the
-- lines of their keys, and hold up nobody there but in an ordered lock.
CREATE OR REPLACE FUNCTION pgjobs_meet_pauses(ids bigint[], obstacles jsonb)
RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT coalesce(
            jsonb_object_agg(
                id, jsonb_build_object('waiting_for', 'limit', 'line', own.line)
            ),
            '{}'
        )
        FROM pgjobs_job AS job
        CROSS JOIN LATERAL (
            SELECT pgjobs_paused_line(job.task, job.keys) OFFSET 0
        ) AS own (line)
        WHERE id = ANY (ids) AND NOT obstacles ? id::text AND own.line IS NOT NULL
    );
END
$$;
