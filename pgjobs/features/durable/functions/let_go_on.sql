-- Make those of these jobs READY whose tasks wait, unless another transaction holds their
-- rows. Return how many, and whether an admission has to decide about some.
CREATE OR REPLACE FUNCTION pgjobs_let_go_on(
    ids bigint[], OUT woken integer, OUT are_keyed boolean
) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    waits_for_jobs bigint[];
    notified text;
BEGIN
    -- The transaction that holds a row now may be ending its job, or not.
    WITH held AS MATERIALIZED (
        SELECT id, waiting_for FROM pgjobs_job
        -- The status is compared as in sql/worker/claim/pick.sql.
        WHERE id = ANY (ids) AND status || '' = 'WAITING'
            AND waiting_for IN ('answer', 'event', 'jobs')
        ORDER BY id
        FOR NO KEY UPDATE SKIP LOCKED
    ),
    done AS (
        UPDATE pgjobs_job SET status = 'READY', run_after = clock_timestamp()
        WHERE id = ANY (ARRAY(SELECT id FROM held))
        RETURNING queue_name, status
    )
    SELECT count(*), bool_or(status = 'WAITING') IS TRUE,
        (SELECT array_agg(id) FROM held WHERE waiting_for = 'jobs'),
        (
            SELECT string_agg(pg_notify(channel, queue)::text, '') FROM (
                SELECT DISTINCT queue_name, CASE status
                    WHEN 'READY' THEN 'pgjobs' ELSE 'pgjobs_admission'
                END
                FROM done
            ) AS queue (queue, channel)
        )
    INTO woken, are_keyed, waits_for_jobs, notified
    FROM done;
    IF waits_for_jobs IS NOT NULL THEN  -- or an admission holds them up
        PERFORM pgjobs_drop_waited_links(waits_for_jobs);
    END IF;
END
$$;
