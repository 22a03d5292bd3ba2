-- Store whether a job that others may need is on its way or has succeeded. The rows of
-- pgjobs_prerequisite are how a job that provides something is found.
CREATE OR REPLACE FUNCTION pgjobs_provide(provider bigint) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    job pgjobs_job;
BEGIN
    SELECT * INTO job FROM pgjobs_job WHERE id = provider;
    IF NOT FOUND OR job.status IN ('FAILED', 'CANCELLED') THEN
        DELETE FROM pgjobs_prerequisite WHERE job_id = provider;
        RETURN;
    END IF;
    -- Its arguments may have been replaced.
    DELETE FROM pgjobs_prerequisite AS known
    WHERE known.job_id = provider
        AND NOT job.dependencies -> 'provides' @> jsonb_build_array(
            jsonb_build_object('key', known.key)
        );
    -- SQL may have written a key twice. The longest time counts.
    INSERT INTO pgjobs_prerequisite AS known
        (job_id, key, finished_at, needed_until)
    SELECT job.id, each.key, job.finished_at,
        job.finished_at + make_interval(secs => max(each."for"))
    FROM jsonb_to_recordset(job.dependencies -> 'provides')
        AS each (key text, "for" float8)
    GROUP BY each.key
    ON CONFLICT (job_id, key) DO UPDATE
        SET finished_at = excluded.finished_at, needed_until = excluded.needed_until
        WHERE known.finished_at IS DISTINCT FROM excluded.finished_at;
END
$$;
