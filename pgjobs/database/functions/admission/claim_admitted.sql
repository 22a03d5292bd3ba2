-- Claim those of these jobs that have met no obstacle, so that they are RUNNING without
-- ever having been READY. Return them as a claim does (sql/worker/claim/columns.sql),
-- each as an array, without results: workers of 0.9.0 call this, too. Return NULL, and
-- change nothing, if the worker has no room for all of them, or does not serve the queue of
-- one, or if that queue is paused or limited: then all become READY, and a claim finds out
-- which of them are first.
CREATE OR REPLACE FUNCTION pgjobs_claim_admitted(
    ids bigint[], obstacles jsonb,
    worker bigint, room integer, served text[], excluded text[], are_rated boolean
) RETURNS json[] LANGUAGE plpgsql AS $$
DECLARE
    claimed json[];
    free bigint[];
    may_claim boolean;
BEGIN
    SELECT array_agg(id), count(*) <= room AND bool_and(
            coalesce(queue_name = ANY (served), true)
            AND NOT queue_name = ANY (excluded)
            AND NOT EXISTS (
                SELECT FROM pgjobs_queue
                WHERE name = queue_name
                    AND (paused_at IS NOT NULL OR max_running IS NOT NULL)
                OFFSET 0
            )
        )
    INTO free, may_claim
    FROM pgjobs_job
    WHERE id = ANY (ids) AND NOT obstacles ? id::text;
    IF may_claim AND free IS NOT NULL THEN
        WITH begun AS (
            UPDATE pgjobs_job
            SET status = 'RUNNING',
                attempts = least(attempts, 2147483646) + 1,
                lease_token = CASE
                    WHEN lease_token < nextval('pgjobs_lease_token')
                        THEN currval('pgjobs_lease_token')
                    ELSE pgjobs_token_beyond(lease_token)
                END,
                worker_id = worker,
                started_at = coalesce(started_at, clock_timestamp()),
                last_attempted_at = clock_timestamp(),
                waiting_for = NULL,
                blocked_by_id = NULL,
                line = NULL,
                -- As in pgjobs_move: it may come back to the queue.
                turn = CASE
                    WHEN starts_with(line, 'limit ') THEN nextval('pgjobs_turn')
                    ELSE turn
                END
            WHERE id = ANY (free)
            RETURNING json_build_array(
                id, task, args::text, kwargs::text, queue_name, priority, attempts,
                failures, max_attempts, crashes, max_crashes, timeout, life,
                lease_token, enqueued_at, pgjobs_ends_for_others(keys) IS TRUE,
                dependencies IS NOT NULL,
                turn, meta::text,
                0::float8  -- it could not run before
            ) AS row
        )
        SELECT array_agg(row) INTO claimed FROM begun;
        IF are_rated THEN
            PERFORM pgjobs_count_claimed(free);
        END IF;
    END IF;
    RETURN claimed;
END
$$;
