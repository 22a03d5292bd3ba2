-- Delete old figures, versions that the charts no longer show beside them, and groups of
-- errors that no failed job is in. A batch of each; SKIP LOCKED: another worker deletes
-- them right now.
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
),
versions AS (
    DELETE FROM pgjobs_codeversion
    WHERE first_at < now() - make_interval(secs => %(hours)s)
),
groups AS (
    DELETE FROM pgjobs_errorgroup
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_errorgroup AS kept
        WHERE first_at < now() - interval '30 days'
            AND muted_version IS NULL
            AND NOT EXISTS (
                SELECT FROM pgjobs_job
                WHERE error_group = kept.id AND status = 'FAILED' OFFSET 0
            )
        LIMIT %(groups)s FOR UPDATE SKIP LOCKED
    ))
)
SELECT count(*) FROM deleted
