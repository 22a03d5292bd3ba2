-- The jobs that have to run before a job, and those that wait for it, however far away,
-- up to a number on each side. A row is a link: job, predecessor, batch. Each step is a
-- look into an index, which LIMIT keeps the planner from replacing by a scan.
WITH RECURSIVE earlier (id) AS (
    SELECT %(id)s::bigint
    UNION
    SELECT link.predecessor_id
    FROM earlier
    CROSS JOIN LATERAL (
        SELECT predecessor_id FROM pgjobs_predecessor
        WHERE job_id = earlier.id AND predecessor_id IS NOT NULL
        LIMIT %(most)s
    ) AS link
), later (id) AS (
    SELECT %(id)s::bigint
    UNION
    SELECT link.job_id
    FROM later
    CROSS JOIN LATERAL (
        SELECT job_id FROM pgjobs_predecessor
        WHERE predecessor_id = later.id
        LIMIT %(most)s
    ) AS link
), member (id) AS (
    (SELECT id FROM earlier LIMIT %(most)s)
    UNION
    (SELECT id FROM later LIMIT %(most)s)
)
SELECT member.id, link.predecessor_id, link.batch_id
FROM member
CROSS JOIN LATERAL (
    SELECT predecessor_id, batch_id FROM pgjobs_predecessor
    WHERE job_id = member.id
    LIMIT %(most)s
) AS link
WHERE link.batch_id IS NOT NULL OR link.predecessor_id IN (SELECT id FROM member)
ORDER BY member.id, link.predecessor_id, link.batch_id
