-- Delete old figures, a batch. SKIP LOCKED: another worker deletes them right now.
WITH old AS MATERIALIZED (
    SELECT figure.id
    FROM (VALUES (1, %(minutes)s), (60, %(hours)s)) AS kept (span, seconds)
    CROSS JOIN LATERAL (
        SELECT id FROM pgjobs_figure
        WHERE span = kept.span AND start < now() - make_interval(secs => kept.seconds)
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    ) AS figure
),
deleted AS (
    DELETE FROM pgjobs_figure WHERE id = ANY (ARRAY(SELECT id FROM old)) RETURNING id
)
SELECT count(*) FROM deleted
