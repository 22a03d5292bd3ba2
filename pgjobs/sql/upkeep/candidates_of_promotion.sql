-- The jobs that a promotion would take first, to find the one on which it fails.
SELECT id FROM pgjobs_job
WHERE status = 'SCHEDULED' AND run_after <= statement_timestamp()
    AND NOT id = ANY (%(skipped)s::bigint[])
ORDER BY run_after, id
LIMIT %(limit)s
