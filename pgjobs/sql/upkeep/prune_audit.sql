-- Delete old entries of the audit trail, a batch. SKIP LOCKED: another worker deletes them
-- right now.
WITH entries AS (
    DELETE FROM pgjobs_auditentry
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_auditentry
        WHERE at < now() - make_interval(secs => %(age)s)
        ORDER BY at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
    RETURNING id
)
SELECT count(*) FROM entries
