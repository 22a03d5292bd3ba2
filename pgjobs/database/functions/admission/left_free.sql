-- Return the keys that were free for these jobs, which have to wait for another key.
-- When such a job leaves a line, or another one makes way for it, the next in line gets
-- its chance. It also gets it when a job leaves the line of a limit or rate that has
-- room, because of its lock, for example.
CREATE OR REPLACE FUNCTION pgjobs_left_free(ids bigint[], obstacles jsonb)
RETURNS jsonb[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        WITH job AS MATERIALIZED (
            SELECT id, line, keys, own.value ->> 'line' AS next_line,
                split_part(own.value ->> 'line', ' ', 1) AS met,
                (own.value ->> 'blocker')::bigint AS blocker
            FROM pgjobs_job
            CROSS JOIN LATERAL (SELECT obstacles -> id::text) AS own (value)
            WHERE id = ANY (ids) AND own.value IS NOT NULL
        )
        SELECT jsonb_strip_nulls(jsonb_build_object(
            'lock', CASE WHEN met IN ('gate', 'limit', 'rate') THEN keys -> 'lock' END,
            'limit_key', CASE
                WHEN met = 'rate' OR met <> 'limit' AND starts_with(line, 'limit ')
                    THEN keys -> 'limit_key'
            END,
            'rate_key', CASE WHEN starts_with(line, 'rate ') THEN keys -> 'rate_key' END
        ))
        FROM job
        WHERE line <> next_line AND line ~ '^(mutex|limit|rate) '
            OR (
                met IN ('limit', 'rate') AND keys ? 'lock'
                OR met = 'rate' AND keys ? 'limit_key'
            )
            AND (
                line <> next_line
                OR id IN (SELECT blocker FROM job)
                OR keys ->> 'limit_key' IN (
                    SELECT keys ->> 'limit_key' FROM job AS other
                    WHERE other.met = 'limit'
                )
            )
    );
END
$$;
