-- Return the jobs at the heads of the lines that wait for these rates, a burst of each
-- rate that is open.
CREATE OR REPLACE FUNCTION pgjobs_next_of_rates(rates jsonb[], most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT head.id
        FROM (
            SELECT array_agg(pgjobs_line('rate', rate_key)) AS lines,
                array_agg(least(most, burst)) AS bursts
            FROM (
                SELECT keys ->> 'rate_key', max((keys ->> 'rate_burst')::integer)
                FROM unnest(rates) AS touched (keys)
                GROUP BY 1
            ) AS touched (rate_key, burst)
            WHERE (SELECT opens_at FROM pgjobs_rate WHERE key = rate_key)
                > clock_timestamp() IS NOT TRUE
        ) AS touched
        CROSS JOIN LATERAL pgjobs_heads(lines, bursts) AS head
    );
END
$$;
