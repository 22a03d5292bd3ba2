-- Return a batch of the answers behind an id to encrypted jobs.
SELECT answer.id, answer.job_id, answer.name, answer.value::text,
    (job.keys -> 'encrypted')::text, false, false
FROM pgjobs_answer AS answer JOIN pgjobs_job AS job ON job.id = answer.job_id
WHERE answer.id > %(after)s AND answer.id <= %(last)s
    AND job.keys ? 'encrypted'
ORDER BY answer.id
LIMIT %(limit)s
