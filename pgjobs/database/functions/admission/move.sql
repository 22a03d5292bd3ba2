-- Make each candidate READY, or put it in the line of its obstacle. Its row, which the
-- caller has locked, stays where it is, and is found by its place (ctid). To find it by
-- its id, the planner would read all jobs for each candidate if it took the table for
-- empty.
CREATE OR REPLACE FUNCTION pgjobs_move(candidates pgjobs_candidate[]) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM set_config('pgjobs.admits', 'on', true);  -- as in record.sql
    UPDATE pgjobs_job AS job
    SET status = CASE WHEN obstacle IS NULL THEN 'READY' ELSE 'WAITING' END,
        waiting_for = CASE obstacle
            WHEN 'undecided' THEN 'dependency'
            WHEN 'unserved' THEN job.waiting_for
            ELSE obstacle
        END,
        blocked_by_id = blocker,
        line = next_line,
        -- Behind the jobs enqueued while it waited, so that limit keys take turns.
        turn = CASE
            WHEN obstacle IS NULL AND starts_with(job.line, 'limit ')
                THEN nextval('pgjobs_turn')
            ELSE job.turn
        END
    FROM (
        SELECT obstacle, blocker, line,
            CASE WHEN obstacle IS NOT NULL THEN pgjobs_line_of(candidate) END
                AS next_line,
            (SELECT ctid FROM pgjobs_job WHERE pgjobs_job.id = candidate.id) AS place
        FROM unnest(candidates) AS candidate
        OFFSET 0
    ) AS decided
    WHERE job.ctid = place AND decided.line IS DISTINCT FROM next_line;
    PERFORM set_config('pgjobs.admits', '', true);
END
$$;
