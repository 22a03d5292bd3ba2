-- Store the jobs that were inserted for ticks, and the last job of each schedule.
-- A tick without a job (NULL) was skipped, because another job holds the unique key.
-- Then an interval that counts from the end of a run has no end to wait for.
-- The ids are compared with arrays, too, as in fire.sql.
WITH run AS (
    SELECT * FROM unnest(%(ticks)s::bigint[], %(jobs)s::bigint[]) AS run (tick, job)
),
linked AS (
    UPDATE pgjobs_tick AS tick SET job_id = run.job
    FROM run
    WHERE tick.id = ANY (%(ticks)s::bigint[])
        AND tick.id = run.tick AND run.job IS NOT NULL
    RETURNING tick.schedule_id, tick.job_id
),
skipped AS (
    DELETE FROM pgjobs_tick AS tick
    USING run
    WHERE tick.id = ANY (%(ticks)s::bigint[])
        AND tick.id = run.tick AND run.job IS NULL
    RETURNING tick.schedule_id
),
stored AS (
    SELECT schedule_id, job_id FROM linked
    UNION ALL
    SELECT schedule_id, NULL FROM skipped
)
UPDATE pgjobs_schedule AS schedule
SET last_job_id = coalesce(latest.job_id, last_job_id),
    last_run_at = CASE WHEN number > 0 THEN clock_timestamp() ELSE last_run_at END,
    run_count = run_count + number,
    skip_count = skip_count + skips,
    next_run_at = CASE
        WHEN anchor = 'end' AND number = 0
            THEN clock_timestamp()
                + make_interval(secs => extract(epoch FROM every)::float8)
        ELSE next_run_at
    END
FROM (
    SELECT schedule_id, max(job_id) AS job_id, count(job_id) AS number,
        count(*) - count(job_id) AS skips
    FROM stored
    GROUP BY schedule_id
) AS latest
WHERE schedule.id = ANY (ARRAY(SELECT schedule_id FROM stored))
    AND schedule.id = latest.schedule_id
