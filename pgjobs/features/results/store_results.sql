-- Store what a running job gets of jobs before it, if the job still has this token. From
-- now on it needs their rows no more. `results_taken` says on its page whose they were.
-- `marks` says which of them are masked.
WITH held AS MATERIALIZED (
    UPDATE pgjobs_job
    SET kwargs = kwargs || %(values)s::jsonb,
        keys = keys - 'results' || jsonb_build_object('results_taken', keys -> 'results')
            || %(marks)s::jsonb
    WHERE id = %(job_id)s
        AND lease_token = %(lease_token)s
        AND worker_id IS NOT NULL
        AND keys ? 'results'
    RETURNING id
),
let_go AS (
    UPDATE pgjobs_predecessor SET gives_result = false
    WHERE job_id = ANY (ARRAY(SELECT id FROM held)) AND gives_result
)
SELECT count(*) FROM held
