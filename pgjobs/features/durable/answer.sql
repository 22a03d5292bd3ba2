-- Answer to a job: see the function.
SELECT pgjobs_store_answer(
    %(job_id)s, %(name)s, %(value)s::jsonb, %(answered_by)s, %(life)s
)
