-- Store when the rates for which jobs wait get their next token.
CREATE OR REPLACE FUNCTION pgjobs_expect_tokens(rate_keys text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pgjobs_rate AS rate SET opens_at = (
        SELECT pgjobs_rate_opens_at(
            full_at, (keys ->> 'rate_interval')::double precision,
            (keys ->> 'rate_burst')::integer, 1, full_at
        )
        FROM pgjobs_heads(ARRAY[pgjobs_line('rate', rate.key)], '{1}')
    )
    WHERE key = ANY (rate_keys);
END
$$;
