-- Find out which of the jobs meet a rate. For each rate as many pass as may start now. A
-- job that may not start yet holds up those behind it, whatever rates they have. So does
-- the first in line that is not among them, unless another transaction holds its row.
CREATE OR REPLACE FUNCTION pgjobs_meet_rates(
    ids bigint[], obstacles jsonb, at timestamptz
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    is_changed CONSTANT boolean := pgjobs_changes_flow();
    rate_keys text[];
    heads bigint[];
BEGIN
    SELECT array_agg(DISTINCT keys ->> 'rate_key') INTO rate_keys
    FROM pgjobs_job
    WHERE id = ANY (ids) AND keys ? 'rate_key' AND NOT obstacles ? id::text;
    IF rate_keys IS NULL THEN
        RETURN '{}';
    END IF;
    PERFORM pgjobs_carry_rates(ids, at);
    heads := ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (ARRAY(
                SELECT head.id
                FROM (
                    SELECT array_agg(pgjobs_line('rate', key)) AS lines,
                        array_agg(1) AS ones
                    FROM unnest(rate_keys) AS key
                ) AS wanted
                CROSS JOIN LATERAL pgjobs_heads(lines, ones) AS head
                WHERE NOT head.id = ANY (ids)
            ))
            AND status = 'WAITING'
        FOR NO KEY UPDATE SKIP LOCKED
    );
    RETURN (
        WITH state AS MATERIALIZED (
            SELECT * FROM pgjobs_rate_states(rate_keys, 2147483647)
        ),
        job AS MATERIALIZED (
            SELECT id, priority, turn, id = ANY (heads) AS is_head,
                keys ->> 'rate_key' AS rate_key, pgjobs_rate_number(own.now) AS number,
                (own.now -> 'rate_interval')::float8 AS step,
                (own.now -> 'rate_burst')::integer AS burst
            FROM pgjobs_job
            CROSS JOIN LATERAL (
                SELECT CASE WHEN is_changed THEN pgjobs_keys_now(task, keys) ELSE keys END
                OFFSET 0
            ) AS own (now)
            WHERE id = ANY (ids || heads) AND keys ? 'rate_key'
                AND NOT obstacles ? id::text
        ),
        placed AS (
            SELECT *, count(*) FILTER (WHERE NOT is_head) OVER same_rate AS place
            FROM job
            WINDOW same_rate AS (PARTITION BY rate_key ORDER BY priority DESC, turn, id)
        )
        SELECT coalesce(
            jsonb_object_agg(id, jsonb_build_object(
                'waiting_for', 'rate', 'line', pgjobs_line('rate', rate_key)
            )) FILTER (WHERE is_held_up AND NOT is_head),
            '{}'
        )
        FROM (
            SELECT placed.*, bool_or(
                    is_head OR pgjobs_rate_opens(
                        starts, counts, even_at, number, number * step, burst,
                        taken + place, at
                    ) > at
                ) OVER same_rate AS is_held_up
            FROM placed JOIN state ON state.key = rate_key
            WINDOW same_rate AS (PARTITION BY rate_key ORDER BY priority DESC, turn, id)
        ) AS met
    );
END
$$;
