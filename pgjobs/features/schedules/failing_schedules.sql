-- The schedules that should fire and whose last runs have all failed, but for one that has
-- not ended. The latest failed jobs name those that may be such: of each the last runs are
-- looked up.
WITH suspect AS MATERIALIZED (
    SELECT DISTINCT schedule_id
    FROM (
        SELECT id FROM pgjobs_job
        WHERE status = 'FAILED' AND finished_at IS NOT NULL
        ORDER BY finished_at DESC LIMIT %(latest)s
    ) AS failed
    CROSS JOIN LATERAL (
        SELECT schedule_id FROM pgjobs_tick WHERE job_id = failed.id OFFSET 0
    ) AS tick
    LIMIT %(candidates)s
)
SELECT schedule.id, schedule.name
FROM suspect
JOIN pgjobs_schedule AS schedule ON schedule.id = schedule_id
CROSS JOIN LATERAL (
    SELECT count(*) AS number, bool_and(status = 'FAILED') AS all_failed
    FROM (
        SELECT status FROM (
            SELECT time, job_id FROM pgjobs_tick
            WHERE schedule_id = schedule.id AND job_id IS NOT NULL
            ORDER BY time DESC LIMIT %(runs)s + 2
        ) AS tick
        CROSS JOIN LATERAL (
            SELECT status FROM pgjobs_job
            WHERE id = tick.job_id AND finished_at IS NOT NULL OFFSET 0
        ) AS job
        ORDER BY time DESC LIMIT %(runs)s
    ) AS ended
) AS run
WHERE NOT paused AND NOT orphaned AND all_failed AND number = %(runs)s
ORDER BY name
LIMIT %(most)s
