-- Store what an operator says of a task or key, and return its id, and whether that
-- differs from what was there. An override that says nothing is deleted. Workers hear of
-- it, and look at all lines, since a higher limit or rate lets jobs go. A rate with a
-- longer period keeps the starts that it has counted for as long.
WITH given AS (
    SELECT %(kind)s::text AS kind, %(key)s::text AS key,
        CASE WHEN %(paused)s::boolean THEN clock_timestamp() END AS paused_at,
        %(max_running)s::integer AS max_running, %(rate_number)s::integer AS rate_number,
        %(rate_seconds)s::double precision AS rate_seconds,
        %(until)s::timestamptz AS until, %(note)s::text AS note
),
before AS MATERIALIZED (
    SELECT override.* FROM pgjobs_override AS override JOIN given USING (kind, key)
),
says AS (
    SELECT (SELECT num_nonnulls(paused_at, max_running, rate_number) FROM given) > 0
        AS something
),
lifted AS (
    DELETE FROM pgjobs_override AS override USING given, says
    WHERE override.kind = given.kind AND override.key = given.key AND NOT something
    RETURNING override.id
),
stored AS (
    INSERT INTO pgjobs_override AS override (
        kind, key, paused_at, max_running, rate_number, rate_seconds, until, note,
        changed_at, changed_in, is_held
    )
    SELECT kind, key, paused_at, max_running, rate_number, rate_seconds, until, note,
        clock_timestamp(), 0, false
    FROM given, says WHERE something
    ON CONFLICT (kind, key) DO UPDATE SET
        paused_at = CASE
            -- One whose time is over pauses nothing any more.
            WHEN excluded.paused_at IS NOT NULL AND override.until <= clock_timestamp()
                THEN excluded.paused_at
            WHEN excluded.paused_at IS NOT NULL
                THEN coalesce(override.paused_at, excluded.paused_at)
        END,
        max_running = excluded.max_running, rate_number = excluded.rate_number,
        rate_seconds = excluded.rate_seconds, until = excluded.until,
        note = excluded.note, changed_at = excluded.changed_at,
        changed_in = excluded.changed_in, is_held = false
    WHERE (
        override.paused_at IS NULL, override.max_running, override.rate_number,
        override.rate_seconds, override.until, override.note
    ) IS DISTINCT FROM (
        excluded.paused_at IS NULL, excluded.max_running, excluded.rate_number,
        excluded.rate_seconds, excluded.until, excluded.note
    )
    RETURNING override.id
),
kept AS (
    UPDATE pgjobs_rate SET longest = greatest(longest, rate_seconds)
    FROM given
    WHERE given.kind = 'rate' AND pgjobs_rate.key = given.key
        AND rate_seconds IS NOT NULL
)
SELECT coalesce(stored.id, lifted.id, before.id),
    stored.id IS NOT NULL OR lifted.id IS NOT NULL,
    pg_notify('pgjobs_overrides', ''), pg_notify('pgjobs_admission', 'sweep')
FROM given
LEFT JOIN before ON true LEFT JOIN stored ON true LEFT JOIN lifted ON true
