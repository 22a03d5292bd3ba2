-- Find the candidates that meet a limit. For each limit as many pass as it has room
-- for, in the order of their line. The first that does not fit holds up all behind it,
-- whatever limit they carry. So a job that comes from elsewhere and stands behind the
-- first job in line joins the line, although it might fit.
--
-- `touched` has the limits whose line has to be looked at again, because such a job has
-- joined it, or because a job fits that allows more jobs than the first: others behind it
-- may fit as well.
CREATE OR REPLACE FUNCTION pgjobs_meet_limits(
    INOUT candidates pgjobs_candidate[], OUT touched jsonb[]
) LANGUAGE plpgsql AS $$
DECLARE
    lines text[];
    heads pgjobs_candidate[] := '{}';  -- the first in line, without ids
BEGIN
    -- Mostly there is no line. To ask for it costs less than to look for its first job.
    SELECT array_agg(name) INTO lines
    FROM (
        SELECT DISTINCT pgjobs_line('limit', limit_key) FROM unnest(candidates)
        WHERE obstacle IS NULL AND line IS DISTINCT FROM pgjobs_line('limit', limit_key)
    ) AS joined (name)
    WHERE EXISTS (SELECT FROM pgjobs_job WHERE line = name OFFSET 0);
    IF lines IS NOT NULL THEN
        heads := ARRAY(
            SELECT ROW(
                NULL, NULL, priority, turn, NULL, NULL, NULL, keys ->> 'limit_key',
                NULL, NULL, NULL, NULL, NULL, NULL
            )::pgjobs_candidate
            FROM pgjobs_heads(lines, array_fill(1, ARRAY[cardinality(lines)])) AS head
            CROSS JOIN LATERAL (
                SELECT priority, turn FROM pgjobs_job WHERE id = head.id OFFSET 0
            ) AS job
        );
    END IF;
    SELECT array_agg(ROW(
            id, queue_name, priority, turn, line, lock, is_ordered, limit_key,
            max_running, rate_key, rate_interval, rate_burst,
            CASE WHEN is_full OR is_held_up THEN 'limit' ELSE obstacle END,
            blocker
        )::pgjobs_candidate),
        coalesce(
            array_agg(jsonb_build_object('limit_key', limit_key)) FILTER (
                WHERE NOT is_full AND (is_behind OR running + number > first_allows)
            ),
            '{}'
        )
    INTO candidates, touched
    FROM (
        SELECT *, bool_or(is_behind) OVER same_limit AS is_held_up,
            coalesce(bool_or(running + number > max_running) OVER same_limit, false)
                AS is_full
        FROM (
            SELECT *,
                coalesce(
                    obstacle IS NULL AND number_of_heads > 0
                        AND line <> pgjobs_line('limit', limit_key),
                    false
                ) AS is_behind,
                max(
                    CASE
                        WHEN number = 1 AND id IS NOT NULL
                            AND obstacle IS NULL AND limit_key IS NOT NULL
                            THEN (
                                SELECT count(*) FROM (
                                    SELECT FROM pgjobs_job
                                    WHERE keys IS NOT NULL
                                        AND keys ->> 'limit_key' = placed.limit_key
                                        AND status IN ('READY', 'RUNNING')
                                    LIMIT placed.max_running
                                ) AS place
                            )
                    END
                ) OVER same_limit AS running,
                max(CASE WHEN number = 1 AND obstacle IS NULL THEN max_running END)
                    OVER same_limit AS first_allows
            FROM (
                SELECT *, count(id) OVER same_limit AS number,
                    count(*) FILTER (WHERE id IS NULL) OVER same_limit
                        AS number_of_heads
                FROM unnest(candidates || heads)
                WINDOW same_limit AS (
                    PARTITION BY obstacle IS NULL, limit_key
                    ORDER BY priority DESC, turn, id
                )
            ) AS placed
            WINDOW same_limit AS (
                PARTITION BY obstacle IS NULL, limit_key
                ORDER BY priority DESC, turn, id
            )
        ) AS counted
        WINDOW same_limit AS (
            PARTITION BY obstacle IS NULL, limit_key
            ORDER BY priority DESC, turn, id
        )
    ) AS met
    WHERE id IS NOT NULL;
END
$$;
