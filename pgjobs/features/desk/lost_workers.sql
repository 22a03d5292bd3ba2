-- The workers that were lost in the last hour, the latest first. A worker that came back
-- is none of them.
SELECT name, at FROM (
    SELECT name, ended_at AS at FROM pgjobs_endedworker AS ended
    WHERE how = 'lost' AND ended_at > statement_timestamp() - interval '1 hour'
        AND NOT EXISTS (SELECT FROM pgjobs_worker WHERE id = ended.worker_id OFFSET 0)
    UNION ALL
    SELECT name, heartbeat_at FROM pgjobs_worker
    WHERE lease_until < statement_timestamp()
        AND heartbeat_at > statement_timestamp() - interval '1 hour'
) AS lost
ORDER BY at DESC
LIMIT %(most)s
