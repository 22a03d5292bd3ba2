-- End jobs that needed another outcome of their predecessor; return their ids. The
-- caller holds their rows, so they are found as in pgjobs_move. `unmet` has the links of
-- pgjobs_close_links.
CREATE OR REPLACE FUNCTION pgjobs_end_unmet(unmet jsonb) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    ended bigint[];
BEGIN
    WITH given_up AS (
        UPDATE pgjobs_job AS job
        SET status = CASE needs WHEN 'dependency' THEN 'FAILED' ELSE 'CANCELLED' END,
            finished_at = clock_timestamp(),
            waiting_for = NULL,
            -- The retry of this one revives a cancelled job.
            blocked_by_id = CASE WHEN needs <> 'failure' THEN culprit END,
            reason = pgjobs_reason_of_end(needs, outcome, culprit, link.batch_id)
        FROM (
            SELECT *, (SELECT ctid FROM pgjobs_job WHERE id = job_id) AS place
            FROM jsonb_to_recordset(unmet) AS link (
                job_id bigint, needs text, outcome text, culprit bigint, batch_id bigint
            )
            OFFSET 0
        ) AS link
        WHERE job.ctid = place AND status IN ('READY', 'SCHEDULED', 'WAITING')
        RETURNING job.id
    )
    SELECT coalesce(array_agg(id), '{}') INTO ended FROM given_up;
    RETURN ended;
END
$$;
