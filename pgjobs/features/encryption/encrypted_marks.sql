-- Return the marks of those of these jobs that are encrypted.
SELECT id, (keys -> 'encrypted')::text FROM pgjobs_job
WHERE id = ANY (%(ids)s::bigint[]) AND keys ? 'encrypted'
