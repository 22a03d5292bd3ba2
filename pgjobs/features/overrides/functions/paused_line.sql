-- Return the line in which a job waits because its task or one of its keys is paused,
-- or NULL. Overrides are found by their keys, however many there are.
CREATE OR REPLACE FUNCTION pgjobs_paused_line(task text, keys jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT pgjobs_line('paused', own.kind || ' ' || own.key)
        FROM (
            VALUES ('task', task), ('lock', keys ->> 'lock'),
                ('limit', keys ->> 'limit_key'), ('rate', keys ->> 'rate_key')
        ) AS own (kind, key)
        CROSS JOIN LATERAL (
            SELECT FROM pgjobs_override AS override
            WHERE override.kind = own.kind AND override.key = own.key
                AND paused_at IS NOT NULL
                AND (until IS NULL OR until > clock_timestamp())
            OFFSET 0
        ) AS pause
        LIMIT 1
    );
END
$$;
