summary AS (
    SELECT
        (SELECT array_agg(lease_token) FROM recorded) AS recorded,
        (SELECT bool_or(line IS NOT NULL) FROM recorded) AS has_keys,
        \ir look.sql
),
verdict AS (
    SELECT *,
        number < %(limit)s AND (
            (SELECT count(*) FROM line) = %(reach)s
            OR EXISTS (SELECT FROM listed WHERE is_limited)
        ) AS is_cut,
        -- What others hold would not have been enough either.
        (SELECT count(*) FROM eligible) < %(limit)s AS is_crowded,
        -- READY jobs that another transaction holds: it may yet release them.
        number < %(limit)s AND number < (SELECT count(*) FROM eligible) AS met_locked
    FROM summary
)
\ir result.sql
