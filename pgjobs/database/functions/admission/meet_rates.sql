-- Find the candidates that meet a rate. For each rate as many pass as may start now. A
-- job that may not start yet holds up those behind it, whatever rates they have, also if
-- it is no candidate. (If another transaction holds its row, it holds up none.)
CREATE OR REPLACE FUNCTION pgjobs_meet_rates(
    candidates pgjobs_candidate[], at timestamptz
) RETURNS pgjobs_candidate[] LANGUAGE plpgsql AS $$
DECLARE
    rate_keys text[];
    heads bigint[];
BEGIN
    SELECT array_agg(DISTINCT rate_key) INTO rate_keys
    FROM unnest(candidates) WHERE obstacle IS NULL AND rate_key IS NOT NULL;
    PERFORM pgjobs_carry_rates(candidates, at);
    heads := pgjobs_heads_of_rates(rate_keys, candidates);
    RETURN ARRAY(
        WITH state AS MATERIALIZED (
            SELECT * FROM pgjobs_rate_states(rate_keys, 2147483647)
        ),
        head AS MATERIALIZED (
            SELECT DISTINCT ON (keys ->> 'rate_key')
                keys ->> 'rate_key' AS key, priority, turn
            FROM pgjobs_job WHERE id = ANY (heads)
            ORDER BY keys ->> 'rate_key', priority DESC, turn
        ),
        placed AS (
            SELECT candidate.*, row_number() OVER same_rate AS place, (
                    SELECT pgjobs_rate_number(keys) FROM pgjobs_job AS job
                    WHERE job.id = candidate.id
                ) AS number
            FROM unnest(candidates) AS candidate
            WINDOW same_rate AS (
                PARTITION BY obstacle IS NULL, rate_key ORDER BY priority DESC, turn
            )
        )
        SELECT ROW(
            id, queue_name, placed.priority, placed.turn, line, lock, is_ordered,
            limit_key, max_running, rate_key, rate_interval, rate_burst,
            CASE
                WHEN obstacle IS NULL AND bool_or(
                    (head.priority, -head.turn) > (placed.priority, -placed.turn)
                    OR pgjobs_rate_opens(
                        starts, counts, even_at, number, number * rate_interval,
                        rate_burst,
                        taken + place, at
                    ) > at
                ) OVER same_rate THEN 'rate'
                ELSE obstacle
            END,
            blocker
        )::pgjobs_candidate
        FROM placed
        LEFT JOIN state ON obstacle IS NULL AND state.key = rate_key
        LEFT JOIN head ON obstacle IS NULL AND head.key = rate_key
        WINDOW same_rate AS (
            PARTITION BY obstacle IS NULL, rate_key
            ORDER BY placed.priority DESC, placed.turn
        )
    );
END
$$;
