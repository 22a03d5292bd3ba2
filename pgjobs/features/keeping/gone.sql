-- Return those of these ids that no job has any more.
SELECT id FROM unnest(%(ids)s::bigint[]) AS given (id)
WHERE NOT EXISTS (SELECT FROM pgjobs_job WHERE pgjobs_job.id = given.id OFFSET 0)
