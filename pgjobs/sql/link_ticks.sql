-- Tie ticks to the jobs that were inserted for them, and remember the last ones.
WITH run AS (
    SELECT * FROM unnest(%(ticks)s::bigint[], %(jobs)s::bigint[]) AS run (tick, job)
),
linked AS (
    UPDATE pgjobs_tick AS tick SET job_id = run.job
    FROM run WHERE tick.id = run.tick
    RETURNING tick.schedule_id, tick.job_id
)
UPDATE pgjobs_schedule AS schedule
SET last_job_id = latest.job_id,
    last_run_at = clock_timestamp(),
    run_count = run_count + latest.number
FROM (
    SELECT schedule_id, max(job_id) AS job_id, count(*) AS number
    FROM linked GROUP BY schedule_id
) AS latest
WHERE schedule.id = latest.schedule_id
