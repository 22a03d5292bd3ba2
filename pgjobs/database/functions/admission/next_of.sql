-- Return the jobs that may be next after these keys have been freed: the first ones of
-- the lines that wait for them, as many of each as its key has room for. Most keys have
-- no line, so this asks for it first.
CREATE OR REPLACE FUNCTION pgjobs_next_of(freed_keys jsonb[], most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    at CONSTANT timestamptz := clock_timestamp();
    ids bigint[];
    ordered text[];  -- free locks: the ids decide
    shared text[];  -- lines of keys that may have room for several jobs
    lines text[];
    numbers integer[];
BEGIN
    SELECT array_agg(key) FILTER (WHERE kind = 'lock'),
        array_agg(line) FILTER (WHERE kind IN ('limit', 'rate')),
        array_agg(line) FILTER (WHERE kind IN ('gate', 'mutex')),
        array_agg(CASE kind WHEN 'gate' THEN most ELSE 1 END)
            FILTER (WHERE kind IN ('gate', 'mutex'))
    INTO ordered, shared, lines, numbers
    FROM (
        SELECT DISTINCT kind, key, pgjobs_line(kind, key)
        FROM unnest(freed_keys) AS freed_keys (keys)
        CROSS JOIN LATERAL (
            VALUES ('gate', keys ->> 'gate'),
                ('lock', keys ->> 'lock'), ('mutex', keys ->> 'lock'),
                ('limit', keys ->> 'limit_key'), ('rate', keys ->> 'rate_key')
        ) AS own (kind, key)
        WHERE key IS NOT NULL
    ) AS own (kind, key, line)
    -- OFFSET 0: asked for each line, so that there is no join with all jobs.
    WHERE EXISTS (SELECT FROM pgjobs_job AS job WHERE job.line = own.line OFFSET 0)
        AND (kind IN ('lock', 'mutex') AND EXISTS (
            SELECT FROM pgjobs_job
            WHERE keys IS NOT NULL AND keys ->> 'lock' = own.key
                AND status IN ('READY', 'RUNNING')
            OFFSET 0
        )) IS NOT TRUE
        AND (kind = 'gate' AND EXISTS (
            SELECT FROM pgjobs_queue
            WHERE name = 'gate:' || own.key AND paused_at IS NOT NULL
            OFFSET 0
        )) IS NOT TRUE;
    IF ordered IS NOT NULL THEN
        ids := ARRAY(
            SELECT id
            FROM unnest(ordered) AS free (lock)
            CROSS JOIN LATERAL (
                SELECT id, line, queue_name FROM pgjobs_job
                WHERE keys IS NOT NULL
                    -- An equation would let the planner walk the primary key.
                    AND keys ->> 'lock' BETWEEN free.lock AND free.lock
                    AND (keys ->> 'is_ordered') IS DISTINCT FROM 'false'
                    AND status IN ('WAITING', 'SCHEDULED')
                ORDER BY keys ->> 'lock', id LIMIT 1
            ) AS first
            WHERE line = pgjobs_line('lock', lock) AND pgjobs_is_served(queue_name)
        );
    END IF;
    IF shared IS NOT NULL THEN
        -- The first in line says how many fit, as mostly all in a line agree. The next
        -- one comes along if it may fit all the same, because it allows more jobs. Then
        -- pgjobs_meet_limits asks for those behind it, too.
        SELECT ids || array_agg(id) FILTER (WHERE number = 1),
            lines || array_agg(line) FILTER (WHERE number > 1),
            numbers || array_agg(least(number, most)) FILTER (WHERE number > 1)
        INTO ids, lines, numbers
        FROM (
            SELECT line, id, CASE
                    WHEN is_limit AND (room > 1 OR room = 1 AND next_allows > allows)
                        THEN room + 1
                    ELSE room
                END AS number
            FROM (
                SELECT line, id, keys, place, starts_with(line, 'limit ') AS is_limit,
                    (keys -> 'max_running')::integer AS allows,
                    lead((keys -> 'max_running')::integer)
                        OVER (PARTITION BY line ORDER BY place) AS next_allows
                FROM pgjobs_heads(shared, array_fill(2, ARRAY[cardinality(shared)]))
            ) AS head
            CROSS JOIN LATERAL (
                SELECT CASE
                    WHEN is_limit THEN allows - (
                        SELECT count(*)::integer FROM (
                            SELECT FROM pgjobs_job
                            WHERE keys IS NOT NULL
                                AND keys ->> 'limit_key' = head.keys ->> 'limit_key'
                                AND status IN ('READY', 'RUNNING')
                            LIMIT allows
                        ) AS place
                    )
                    ELSE (
                        -- If the first has to wait, it comes alone where it is not known
                        -- yet until when, or where that is earlier than was known.
                        SELECT CASE
                            WHEN next_at <= at THEN least(number, burst)
                            ELSE ((opens_at <= next_at + interval '1 ms') IS NOT TRUE)::integer
                        END
                        FROM (
                            SELECT pgjobs_rate_number(keys), (keys -> 'rate_burst')::integer
                            OFFSET 0
                        ) AS own (number, burst)
                        CROSS JOIN LATERAL (
                            SELECT opens_at, pgjobs_rate_opens(
                                    starts, counts, even_at, number,
                                    number * (keys -> 'rate_interval')::float8, burst,
                                    taken + 1, at
                                ) AS next_at
                            FROM pgjobs_rate_states(
                                ARRAY[keys ->> 'rate_key'], 2147483647
                            )
                            OFFSET 0
                        ) AS state
                    )
                END
                OFFSET 0  -- counted once, although it is used several times
            ) AS own (room)
            WHERE place = 1
        ) AS first;
    END IF;
    IF lines IS NOT NULL THEN
        ids := ids || ARRAY(SELECT id FROM pgjobs_heads(lines, numbers));
    END IF;
    RETURN coalesce(ids, '{}');
END
$$;
