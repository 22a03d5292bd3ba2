-- Find out which of the jobs meet a limit. For each limit as many pass as it has room
-- for, in the order of their line. The first that does not fit holds up all behind it,
-- whatever limit they carry. So a job that comes from elsewhere and stands behind the
-- first job in line joins the line, although it might fit.
--
-- `freed_keys` has the limits whose line has to be looked at again, because such a job
-- has joined it, or because a job fits that allows more jobs than the first: others
-- behind it may fit as well.
CREATE OR REPLACE FUNCTION pgjobs_meet_limits(
    ids bigint[], INOUT obstacles jsonb, OUT freed_keys jsonb[]
) LANGUAGE plpgsql AS $$
DECLARE
    is_changed CONSTANT boolean := pgjobs_changes_flow();
BEGIN
    WITH job AS MATERIALIZED (
        SELECT id, priority, turn, keys ->> 'limit_key' AS key,
            (CASE WHEN is_changed THEN pgjobs_keys_now(task, keys) ELSE keys END
                -> 'max_running')::integer AS allows,
            pgjobs_line('limit', keys ->> 'limit_key') AS own_line,
            line <> pgjobs_line('limit', keys ->> 'limit_key') AS comes_from_elsewhere
        FROM pgjobs_job
        WHERE id = ANY (ids) AND keys ? 'limit_key' AND NOT obstacles ? id::text
    ),
    -- Mostly there is no line. To ask for it costs less than to look for its first job.
    joined AS (
        SELECT array_agg(line) AS lines, array_agg(1) AS ones
        FROM (SELECT DISTINCT own_line FROM job WHERE comes_from_elsewhere) AS own (line)
        WHERE EXISTS (SELECT FROM pgjobs_job WHERE pgjobs_job.line = own.line OFFSET 0)
        HAVING count(*) > 0
    ),
    placed AS (
        SELECT *, count(id) OVER same_limit AS number,
            bool_or(id IS NULL) OVER same_limit AND comes_from_elsewhere AS is_behind
        FROM (
            SELECT * FROM job
            UNION ALL
            SELECT NULL, priority, turn, keys ->> 'limit_key', NULL, line, NULL
            FROM joined CROSS JOIN LATERAL pgjobs_heads(lines, ones)
        ) AS either
        WINDOW same_limit AS (PARTITION BY key ORDER BY priority DESC, turn, id)
    ),
    counted AS (
        SELECT *, number + max(
                CASE
                    WHEN number = 1 THEN (
                        SELECT count(*) FROM (
                            SELECT FROM pgjobs_job
                            WHERE keys IS NOT NULL AND keys ->> 'limit_key' = placed.key
                                AND status IN ('READY', 'RUNNING')
                            LIMIT placed.allows
                        ) AS place
                    )
                END
            ) OVER same_limit AS running,
            first_value(allows) OVER same_limit AS first_allows
        FROM placed WHERE id IS NOT NULL
        WINDOW same_limit AS (PARTITION BY key ORDER BY priority DESC, turn, id)
    )
    SELECT coalesce(
            jsonb_object_agg(
                id, jsonb_build_object('waiting_for', 'limit', 'line', own_line)
            ) FILTER (WHERE is_full OR is_held_up),
            '{}'
        ),
        coalesce(
            array_agg(jsonb_build_object('limit_key', key)) FILTER (
                WHERE NOT is_full AND (is_behind OR running > first_allows)
            ),
            '{}'
        )
    INTO obstacles, freed_keys
    FROM (
        SELECT *, bool_or(is_behind) OVER same_limit AS is_held_up,
            bool_or(running > allows) OVER same_limit AS is_full
        FROM counted
        WINDOW same_limit AS (PARTITION BY key ORDER BY priority DESC, turn, id)
    ) AS met;
END
$$;
