-- Return the keys that were free for these candidates, which had to wait for another
-- key. When such a candidate has left a line, or another one has made way for it, the
-- next in line gets its chance. It also gets it when a candidate leaves the line of a
-- limit or rate that has room, because of its lock, for example.
CREATE OR REPLACE FUNCTION pgjobs_left_free(candidates pgjobs_candidate[])
RETURNS jsonb[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT jsonb_strip_nulls(jsonb_build_object(
            'lock', CASE WHEN obstacle IN ('limit', 'rate') THEN lock END,
            'limit_key', CASE
                WHEN obstacle = 'rate'
                    OR obstacle <> 'limit' AND starts_with(line, 'limit ')
                    THEN limit_key
            END,
            'rate_key', CASE WHEN starts_with(line, 'rate ') THEN rate_key END,
            'rate_burst', CASE WHEN starts_with(line, 'rate ') THEN rate_burst END
        ))
        FROM unnest(candidates) AS candidate
        WHERE line <> pgjobs_line_of(candidate) AND line ~ '^(limit|rate) '
            OR obstacle IN ('limit', 'rate')
            AND (lock IS NOT NULL OR obstacle = 'rate' AND limit_key IS NOT NULL)
            AND (
                line IS DISTINCT FROM pgjobs_line_of(candidate)
                OR id IN (SELECT blocker FROM unnest(candidates))
                OR limit_key IN (
                    SELECT other.limit_key FROM unnest(candidates) AS other
                    WHERE other.obstacle = 'limit'
                )
            )
    );
END
$$;
