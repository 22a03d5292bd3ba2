-- Let an admission look at a batch of the jobs that stand in the line of a pause that is
-- over. Return how many. The lines are found by hopping along the index.
CREATE OR REPLACE FUNCTION pgjobs_let_go(most integer) RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET search_path FROM CURRENT
AS $$
DECLARE
    number integer;
BEGIN
    UPDATE pgjobs_job SET line = 'arrived'
    WHERE id = ANY (ARRAY(
        SELECT job.id
        FROM (
            WITH RECURSIVE hop (line) AS (
                (
                    SELECT line FROM pgjobs_job
                    WHERE line > 'paused ' AND line < 'paused!' ORDER BY line LIMIT 1
                )
                UNION ALL
                SELECT (
                    SELECT line FROM pgjobs_job
                    WHERE line > hop.line AND line < 'paused!' ORDER BY line LIMIT 1
                )
                FROM hop WHERE hop.line IS NOT NULL
            )
            SELECT line FROM hop
            -- Not by EXISTS: each line would be compared with each pause.
            WHERE line IS NOT NULL AND line NOT IN (
                SELECT pgjobs_line('paused', kind || ' ' || key) FROM pgjobs_override
                WHERE paused_at IS NOT NULL
                    AND (until IS NULL OR until > clock_timestamp())
            )
        ) AS ended
        CROSS JOIN LATERAL (
            SELECT id FROM pgjobs_job WHERE line = ended.line
            ORDER BY line, queue_name, priority DESC, turn LIMIT most
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS job
        LIMIT most
    ));
    GET DIAGNOSTICS number = ROW_COUNT;
    IF number > 0 THEN
        PERFORM pg_notify('pgjobs_admission', '');
    END IF;
    RETURN number;
END
$$;
