-- Look at some rows that belong to jobs, behind a job's id, and delete those whose job is
-- gone. Return of how many jobs, and behind which id to go on, or NULL at the end.
WITH seen AS MATERIALIZED (
    SELECT job_id
    FROM (
        (
            SELECT job_id FROM pgjobs_attempt
            WHERE job_id > %(after)s ORDER BY job_id LIMIT %(limit)s
        )
        UNION
        (
            SELECT job_id FROM pgjobs_progress
            WHERE job_id > %(after)s ORDER BY job_id LIMIT %(limit)s
        )
        UNION
        (
            SELECT job_id FROM pgjobs_step
            WHERE job_id > %(after)s ORDER BY job_id LIMIT %(limit)s
        )
        UNION
        (
            SELECT job_id FROM pgjobs_wait
            WHERE job_id > %(after)s ORDER BY job_id LIMIT %(limit)s
        )
        UNION
        (
            SELECT job_id FROM pgjobs_answer
            WHERE job_id > %(after)s ORDER BY job_id LIMIT %(limit)s
        )
        UNION
        (
            SELECT job_id FROM pgjobs_tick
            WHERE job_id > %(after)s ORDER BY job_id LIMIT %(limit)s
        )
        UNION
        (
            SELECT job_id FROM pgjobs_delivery
            WHERE job_id > %(after)s ORDER BY job_id LIMIT %(limit)s
        )
    ) AS each
    ORDER BY job_id
    LIMIT %(limit)s
),
gone AS MATERIALIZED (
    SELECT job_id FROM seen
    WHERE NOT EXISTS (SELECT FROM pgjobs_job WHERE id = seen.job_id OFFSET 0)
),
attempts AS (
    DELETE FROM pgjobs_attempt WHERE job_id = ANY (ARRAY(SELECT job_id FROM gone))
),
reports AS (
    DELETE FROM pgjobs_progress WHERE job_id = ANY (ARRAY(SELECT job_id FROM gone))
),
steps AS (
    DELETE FROM pgjobs_step WHERE job_id = ANY (ARRAY(SELECT job_id FROM gone))
),
waits AS (
    DELETE FROM pgjobs_wait WHERE job_id = ANY (ARRAY(SELECT job_id FROM gone))
),
answers AS (
    DELETE FROM pgjobs_answer WHERE job_id = ANY (ARRAY(SELECT job_id FROM gone))
),
ticks AS (
    DELETE FROM pgjobs_tick WHERE job_id = ANY (ARRAY(SELECT job_id FROM gone))
),
deliveries AS (
    DELETE FROM pgjobs_delivery WHERE job_id = ANY (ARRAY(SELECT job_id FROM gone))
)
SELECT (SELECT count(*) FROM gone),
    CASE WHEN (SELECT count(*) FROM seen) = %(limit)s
        THEN (SELECT max(job_id) FROM seen)
    END
