-- Return the keys of a job with the limit and the rate that operators have set for it: for
-- its own key, or else for all keys of its task. Without such an override they are what
-- the code declared when it was enqueued.
CREATE OR REPLACE FUNCTION pgjobs_keys_now(task text, keys jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
    changed record;
BEGIN
    IF (keys ?| ARRAY['limit_key', 'rate_key']) IS NOT TRUE THEN
        RETURN keys;
    END IF;
    SELECT (array_agg(max_running ORDER BY own.place)
            FILTER (WHERE max_running IS NOT NULL AND own.kind <> 'rate'))[1]
            AS max_running,
        (array_agg(rate_number ORDER BY own.place)
            FILTER (WHERE rate_number IS NOT NULL AND own.kind <> 'limit'))[1]
            AS rate_number,
        (array_agg(rate_seconds ORDER BY own.place)
            FILTER (WHERE rate_number IS NOT NULL AND own.kind <> 'limit'))[1]
            AS rate_seconds
    INTO changed
    FROM (
        VALUES (1, 'limit', keys ->> 'limit_key'), (2, 'rate', keys ->> 'rate_key'),
            (3, 'task', task)
    ) AS own (place, kind, key)
    CROSS JOIN LATERAL (
        SELECT * FROM pgjobs_override AS override
        WHERE override.kind = own.kind AND override.key = own.key
            AND (until IS NULL OR until > clock_timestamp())
        OFFSET 0
    ) AS override;
    IF changed.max_running IS NOT NULL AND keys ? 'limit_key' THEN
        keys := keys || jsonb_build_object('max_running', changed.max_running);
    END IF;
    IF changed.rate_number IS NOT NULL AND keys ? 'rate_key' THEN
        keys := keys || jsonb_build_object(
            'rate_number', changed.rate_number,
            'rate_interval', changed.rate_seconds / changed.rate_number,
            -- What is paced stays so, and what is not paced is not.
            'rate_burst', CASE
                WHEN (keys -> 'rate_burst')::integer < pgjobs_rate_number(keys)
                    THEN least((keys -> 'rate_burst')::integer, changed.rate_number)
                ELSE changed.rate_number
            END
        );
    END IF;
    RETURN keys;
END
$$;
