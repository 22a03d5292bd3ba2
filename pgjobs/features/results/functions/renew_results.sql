-- Take back the jobs that name a result of these, which are retried, and that have not
-- begun: they wait again, and get the new result. Whose value is stored keeps it.
--
-- Their rows are locked also where they wait already: an admission that still sees the
-- old result could let them go on meanwhile.
CREATE OR REPLACE FUNCTION pgjobs_renew_results(ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    batches CONSTANT bigint[] := ARRAY(
        SELECT DISTINCT batch_id FROM pgjobs_job
        WHERE id = ANY (ids) AND batch_id IS NOT NULL
    );
    named CONSTANT bigint[] := ARRAY(
        SELECT link.job_id FROM unnest(ids) AS given (id)
        CROSS JOIN LATERAL (
            SELECT job_id FROM pgjobs_predecessor
            WHERE gives_result AND predecessor_id = given.id
            ORDER BY predecessor_id OFFSET 0
        ) AS link
        UNION
        SELECT link.job_id FROM unnest(batches) AS given (id)
        CROSS JOIN LATERAL (
            SELECT job_id FROM pgjobs_predecessor
            WHERE gives_result AND batch_id = given.id
            ORDER BY batch_id OFFSET 0
        ) AS link
    );
    held bigint[];
    freed jsonb[];
BEGIN
    IF named = '{}' THEN
        RETURN;
    END IF;
    held := ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (named) AND status IN ('READY', 'SCHEDULED', 'WAITING')
            AND keys ? 'results'
        ORDER BY id
        FOR NO KEY UPDATE
    );
    UPDATE pgjobs_predecessor SET is_open = true
    WHERE job_id = ANY (held) AND NOT is_open
        AND (predecessor_id = ANY (ids) OR batch_id = ANY (batches));
    -- A lock or a place under a limit that one of them had is free.
    freed := ARRAY(
        SELECT keys FROM pgjobs_job
        WHERE id = ANY (held) AND status = 'READY'
            AND keys ?| ARRAY['lock', 'limit_key']
    );
    UPDATE pgjobs_job
    SET status = CASE status WHEN 'SCHEDULED' THEN status ELSE 'WAITING' END,
        waiting_for = CASE WHEN status <> 'SCHEDULED' THEN 'predecessor' END,
        blocked_by_id = NULL,
        line = 'unlinked'
    WHERE id = ANY (held);
    PERFORM pgjobs_leave_note(NULL, each.keys) FROM unnest(freed) AS each (keys);
END
$$;
