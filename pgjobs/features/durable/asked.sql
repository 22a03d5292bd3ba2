-- What a job asks by this name now; SQL may have stored anything.
SELECT CASE WHEN jsonb_typeof(wait.asked) = 'object' THEN wait.asked ELSE '{}' END::text
FROM pgjobs_job AS job JOIN pgjobs_wait AS wait
    ON wait.job_id = job.id AND wait.life = job.life
WHERE job.id = pgjobs_newest(%(job_id)s)
    AND wait.kind = 'answer' AND wait.ended_at IS NULL
    AND coalesce(nullif(wait.label, ''), wait.name) = %(name)s
