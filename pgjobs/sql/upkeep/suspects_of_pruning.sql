-- The finished jobs that are old enough to be pruned, to find the one that cannot be
-- deleted. Some of them may be kept for another reason.
SELECT job.id
FROM (
    SELECT status, clock_timestamp() - make_interval(secs => age) AS since
    FROM unnest(%(statuses)s::text[], %(ages)s::float8[]) AS given (status, age)
) AS kept
CROSS JOIN LATERAL (
    SELECT id FROM pgjobs_job AS job
    WHERE job.status = kept.status
        AND job.finished_at IS NOT NULL
        AND job.finished_at < kept.since
        AND NOT job.id = ANY (%(skipped)s::bigint[])
    ORDER BY job.finished_at
    LIMIT %(limit)s
) AS job
