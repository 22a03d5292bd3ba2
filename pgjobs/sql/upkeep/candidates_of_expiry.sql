-- The jobs that would expire first, to find the one on which expiry fails.
SELECT id FROM pgjobs_job
WHERE expires_at <= statement_timestamp() AND attempts = 0 AND finished_at IS NULL
    AND NOT id = ANY (%(skipped)s::bigint[])
ORDER BY expires_at
LIMIT %(limit)s
