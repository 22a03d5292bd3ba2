-- Find the candidates that meet a limit. For each limit as many pass as it has room
-- for. A job that allows fewer running jobs than the others holds up those behind it.
CREATE OR REPLACE FUNCTION pgjobs_meet_limits(candidates pgjobs_candidate[])
RETURNS pgjobs_candidate[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT ROW(
            id, queue_name, priority, turn, line, lock, is_ordered, limit_key,
            max_running, rate_key, rate_interval, rate_burst,
            CASE
                WHEN obstacle IS NULL AND bool_or(running + number > max_running)
                    OVER same_limit THEN 'limit'
                ELSE obstacle
            END,
            blocker
        )::pgjobs_candidate
        FROM (
            SELECT *, first_value(
                    CASE
                        WHEN number = 1 AND obstacle IS NULL AND limit_key IS NOT NULL
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
                ) OVER same_limit AS running
            FROM (
                SELECT *, row_number() OVER (
                        PARTITION BY obstacle IS NULL, limit_key
                        ORDER BY priority DESC, turn
                    ) AS number
                FROM unnest(candidates)
            ) AS placed
            WINDOW same_limit AS (
                PARTITION BY obstacle IS NULL, limit_key ORDER BY priority DESC, turn
            )
        ) AS counted
        WINDOW same_limit AS (
            PARTITION BY obstacle IS NULL, limit_key ORDER BY priority DESC, turn
        )
    );
END
$$;
