-- The schedules that should fire and whose last runs have all failed, but for one that has
-- not ended. Of each the last job is looked up; where it was no success, its last runs.
SELECT schedule.id, schedule.name
FROM (
    SELECT schedule.id, name FROM pgjobs_schedule AS schedule
    JOIN pgjobs_job AS last ON last.id = last_job_id
    WHERE NOT paused AND NOT orphaned AND last.status <> 'SUCCESSFUL'
    LIMIT %(candidates)s
) AS schedule
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
WHERE all_failed AND number = %(runs)s
ORDER BY name
LIMIT %(most)s
