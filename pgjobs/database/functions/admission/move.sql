-- Make each of these jobs READY, or put it in the line of its obstacle. Return the queues
-- of those that became READY. The rows, which the caller has locked, stay where they are,
-- and are found by their places (ctid). To find them by their ids, the planner would read
-- all jobs for each if it took the table for empty.
CREATE OR REPLACE FUNCTION pgjobs_move(
    ids bigint[], obstacles jsonb, OUT admitted_to text[]
) LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('pgjobs.admits', 'on', true);  -- as in record.sql
    WITH moved AS (
        UPDATE pgjobs_job AS job
        SET status = CASE WHEN met IS NULL THEN 'READY' ELSE 'WAITING' END,
            waiting_for = met ->> 'waiting_for',
            blocked_by_id = (met ->> 'blocker')::bigint,
            line = met ->> 'line',
            -- It could run from now on, however long it has waited for that.
            run_after = CASE WHEN met IS NULL THEN clock_timestamp() ELSE run_after END,
            -- Behind the jobs enqueued while it waited, so that limit keys alternate.
            turn = CASE
                WHEN met IS NULL AND starts_with(line, 'limit ')
                    THEN nextval('pgjobs_turn')
                ELSE turn
            END
        FROM (
            SELECT obstacles -> wanted.id::text AS met, (
                    SELECT ctid FROM pgjobs_job
                    WHERE pgjobs_job.id = wanted.id AND status = 'WAITING'
                ) AS place
            FROM unnest(ids) AS wanted (id)
            OFFSET 0
        ) AS decided
        WHERE job.ctid = place AND line IS DISTINCT FROM met ->> 'line'
        RETURNING status, queue_name
    )
    SELECT array_agg(queue_name) FILTER (WHERE status = 'READY') INTO admitted_to
    FROM moved;
    PERFORM set_config('pgjobs.admits', '', true);
END
$$;
