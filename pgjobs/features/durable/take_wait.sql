-- Take what a wait of a running job waits for, if it is there: see the function.
SELECT state, stored::text, answer::text, steps::text
FROM pgjobs_take_wait(
    %(job_id)s, %(lease_token)s, %(name)s, %(ways)s::jsonb, %(accepted)s,
    %(reads_steps)s
)
