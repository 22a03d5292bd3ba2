-- What a link to an answer leads to: its state, the row of the wait if it is open, and the
-- user who has answered. No row: the job is gone. The link of a job that goes on as another
-- one leads to that one.
--
-- The states: answered (also by another label of its wait), retried (the job is in another
-- life), ended (the job is), over (the wait is, without an answer), unasked, open. What
-- counts is what `pgjobs_store_answer` looks at.
SELECT CASE
        WHEN answer.id IS NOT NULL THEN 'answered'
        WHEN job.life <> link.life THEN 'retried'
        WHEN job.finished_at IS NOT NULL THEN 'ended'
        WHEN wait.ended OR EXISTS (
            SELECT FROM pgjobs_step
            WHERE job_id = job.id AND life = job.life AND name = %(name)s
        ) THEN 'over'
        WHEN wait.open IS NULL THEN 'unasked'
        WHEN EXISTS (
            SELECT FROM pgjobs_wait AS asked
            JOIN pgjobs_wait AS other
                ON other.job_id = job.id AND other.life = job.life
                AND other.name = asked.name
            JOIN pgjobs_answer AS its
                ON its.job_id = job.id AND its.life = job.life AND its.name = other.label
            WHERE asked.id = wait.open
        ) THEN 'answered'
        ELSE 'open'
    END,
    wait.open, answer.answered_by
FROM pgjobs_job AS job
CROSS JOIN LATERAL (
    SELECT CASE job.id WHEN %(job_id)s THEN %(life)s ELSE job.life END AS life
) AS link
LEFT JOIN pgjobs_answer AS answer
    ON answer.job_id = job.id AND answer.life = link.life AND answer.name = %(name)s
CROSS JOIN LATERAL (
    SELECT bool_or(ended_at IS NOT NULL) AS ended,
        min(id) FILTER (WHERE ended_at IS NULL AND kind = 'answer') AS open
    FROM pgjobs_wait
    WHERE job_id = job.id AND life = job.life
        AND coalesce(nullif(label, ''), name) = %(name)s
) AS wait
WHERE job.id = pgjobs_newest(%(job_id)s)
