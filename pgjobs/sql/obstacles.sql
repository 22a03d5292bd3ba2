-- What holds WAITING jobs back at this moment, and the job that is in the way, if any.
SELECT job.id,
    CASE
        WHEN hold.state = 'aside' THEN 'aside'
        -- Nobody knows yet for which job.
        WHEN job.waiting_for = 'dependency' AND link.number = 0 THEN 'dependency'
        ELSE obstacle.waiting_for
    END,
    coalesce(hold.opens_at, obstacle.opens_at), hold.max_running,
    CASE obstacle.waiting_for
        WHEN 'lock' THEN hold.lock
        WHEN 'limit' THEN hold.limit_key
        WHEN 'rate' THEN hold.rate_key
    END,
    blocker.id, blocker.status, blocker.queue_name, blocker.run_after,
    link.batch_id, link.number
FROM pgjobs_job AS job
LEFT JOIN pgjobs_hold AS hold ON hold.job_id = job.id
CROSS JOIN LATERAL pgjobs_obstacle(pgjobs_hold_of(job)) AS obstacle
LEFT JOIN pgjobs_job AS blocker ON blocker.id = obstacle.blocked_by_id
CROSS JOIN LATERAL (
    SELECT min(batch_id) AS batch_id, count(*) AS number
    FROM pgjobs_predecessor WHERE job_id = job.id AND is_open
) AS link
WHERE job.id = ANY (%(ids)s::bigint[]) AND job.status = 'WAITING'
