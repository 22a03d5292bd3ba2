-- Delete old entries of the audit trail, versions that the charts no longer show, and
-- groups of errors that no failed job is in. A batch of each; SKIP LOCKED: another worker
-- deletes them right now.
WITH entries AS (
    DELETE FROM pgjobs_auditentry
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_auditentry
        WHERE at < now() - make_interval(secs => %(audit)s)
        ORDER BY at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
    RETURNING id
),
versions AS (
    DELETE FROM pgjobs_codeversion
    WHERE first_at < now() - make_interval(secs => %(figures)s)
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
        LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
)
SELECT count(*) FROM entries
