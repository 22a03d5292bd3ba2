-- The steps that a job has done in this life.
SELECT name, return_value::text FROM pgjobs_step
WHERE job_id = %(job_id)s AND life = %(life)s
