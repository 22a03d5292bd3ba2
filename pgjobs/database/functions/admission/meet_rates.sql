-- Find the candidates that meet a rate. For each rate as many pass as it has tokens.
CREATE OR REPLACE FUNCTION pgjobs_meet_rates(
    candidates pgjobs_candidate[], at timestamptz
) RETURNS pgjobs_candidate[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT ROW(
            id, queue_name, priority, turn, line, lock, is_ordered, limit_key,
            max_running, rate_key, rate_interval, rate_burst,
            CASE
                WHEN obstacle IS NULL AND pgjobs_rate_opens_at(
                        full_at, rate_interval, rate_burst, number, at
                    ) > at
                    THEN 'rate'
                ELSE obstacle
            END,
            blocker
        )::pgjobs_candidate
        FROM (
            SELECT *, row_number() OVER (
                    PARTITION BY obstacle IS NULL, rate_key
                    ORDER BY priority DESC, turn
                ) AS number,
                (SELECT full_at FROM pgjobs_rate WHERE key = rate_key) AS full_at
            FROM unnest(candidates)
        ) AS placed
    );
END
$$;
