-- The last turn of the READY jobs of each priority, by hopping along the index of the claim
-- order from its end.
WITH RECURSIVE last AS (
    (
        SELECT priority, turn FROM pgjobs_job WHERE status LIKE 'READY%%'
        ORDER BY priority, turn DESC LIMIT 1
    )
    UNION ALL
    SELECT job.* FROM last CROSS JOIN LATERAL (
        SELECT priority, turn FROM pgjobs_job
        WHERE status LIKE 'READY%%' AND priority > last.priority
        ORDER BY priority, turn DESC LIMIT 1
    ) AS job
)
SELECT priority, turn FROM last
