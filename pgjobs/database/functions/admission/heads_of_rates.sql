-- Return the first job of each of these rates' lines that is no candidate, and whose row
-- no other transaction holds.
CREATE OR REPLACE FUNCTION pgjobs_heads_of_rates(
    rate_keys text[], candidates pgjobs_candidate[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    lines text[];
    numbers integer[];
    found bigint[];
BEGIN
    SELECT array_agg(pgjobs_line('rate', key)), array_agg(1)
    INTO lines, numbers FROM unnest(rate_keys) AS key;
    found := ARRAY(
        SELECT head.id FROM pgjobs_heads(lines, numbers) AS head
        WHERE NOT head.id IN (SELECT candidate.id FROM unnest(candidates) AS candidate)
    );
    IF found = '{}' THEN
        RETURN found;
    END IF;
    RETURN ARRAY(
        SELECT id FROM pgjobs_job WHERE id = ANY (found) AND status = 'WAITING'
        FOR NO KEY UPDATE SKIP LOCKED
    );
END
$$;
