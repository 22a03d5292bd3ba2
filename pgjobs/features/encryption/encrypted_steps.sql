-- Return a batch of the steps behind an id that are of encrypted jobs, or have results of
-- such jobs: the mark of the job, whether the step is a wait with labels, and whether it
-- has the id of an event.
SELECT step.id, step.job_id, step.name, step.return_value::text,
    (job.keys -> 'encrypted')::text,
    EXISTS (
        SELECT FROM pgjobs_wait AS wait
        WHERE wait.job_id = step.job_id AND wait.life = step.life
            AND wait.name = step.name AND wait.label <> ''
    ),
    EXISTS (
        SELECT FROM pgjobs_wait AS wait
        WHERE wait.job_id = step.job_id AND wait.life = step.life
            AND wait.name = step.name AND wait.event_id IS NOT NULL
    )
FROM pgjobs_step AS step JOIN pgjobs_job AS job ON job.id = step.job_id
WHERE step.id > %(after)s AND step.id <= %(last)s
    AND step.return_value IS NOT NULL
    AND (
        job.keys ? 'encrypted'
        OR strpos(step.return_value::text, '"pgjobs_encrypted"') > 0
    )
ORDER BY step.id
LIMIT %(limit)s
