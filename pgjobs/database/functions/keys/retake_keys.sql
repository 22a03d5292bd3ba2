-- Return those of these ended jobs that may hold their unique keys again: those without
-- a key, and those whose key no other job holds. Of several jobs with the same key it is
-- the newest. The caller has locked the rows.
CREATE OR REPLACE FUNCTION pgjobs_retake_keys(ids bigint[]) RETURNS SETOF bigint
LANGUAGE sql AS $$
    WITH ended AS (
        SELECT id, unique_for,
            CASE
                WHEN unique_for <> 'period' OR unique_until > clock_timestamp()
                    THEN unique_key
            END AS wanted_key
        FROM pgjobs_job
        WHERE id = ANY (ids)
    ),
    ranked AS (
        SELECT *, row_number() OVER (
            PARTITION BY wanted_key, unique_for ORDER BY id DESC
        ) AS number
        FROM ended
    )
    SELECT id FROM ranked
    WHERE wanted_key IS NULL
        OR number = 1 AND NOT EXISTS (
            SELECT FROM pgjobs_job AS other
            WHERE other.unique_key = wanted_key
                AND other.unique_for = ranked.unique_for
                AND pgjobs_holds_key(
                    other.unique_for, other.unique_until, other.status,
                    other.attempts, other.finished_at
                )
                AND other.id <> ranked.id
        )
    ORDER BY id
$$;
