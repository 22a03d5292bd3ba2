-- Take back the jobs whose worker is dead: its row is missing, its lease has run out,
-- or its session lock is gone and no sign of life follows. The last two count only for
-- a time in which the rescuer itself was alive, so that no worker is dead after an
-- outage. The lock counts only since the rescuer's connection opened: whatever broke
-- the connection before may have broken those of the other workers, too. A worker whose
-- lock was seen to be gone (chores.sql) has two seconds to take it again: it notices at
-- once that its sessions have ended. One of release 0.9.0 does so at its next heartbeat.
WITH rescuer AS (
    SELECT beating_since,
        greatest(beating_since, (
            SELECT backend_start
            FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid())
        )) AS connected_since
    FROM pgjobs_worker WHERE id = %(worker_id)s
),
-- A sign of life in the future means that the clock was set back since. While the
-- rescuer has beaten after that for long enough, a living worker has beaten again.
dead_worker AS (
    SELECT worker.id
    FROM pgjobs_worker AS worker
    CROSS JOIN rescuer
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN worker.heartbeat_at <= clock_timestamp() THEN worker.heartbeat_at
        END AS heartbeat_at
    ) AS known
    WHERE worker.id <> %(worker_id)s
        AND (
            greatest(known.heartbeat_at, rescuer.beating_since)
                < clock_timestamp() - (worker.lease_until - worker.heartbeat_at)
            OR (
                worker.holds_session_lock
                AND rescuer.connected_since < clock_timestamp()
                    - make_interval(secs => 1.3 * worker.heartbeat_interval)
                AND (
                    known.heartbeat_at < clock_timestamp()
                        - make_interval(secs => 1.3 * worker.heartbeat_interval)
                    -- The clock was set back.
                    OR known.heartbeat_at IS NULL
                    OR (
                        worker.lock_key IS NOT NULL
                        AND worker.unlocked_at > known.heartbeat_at
                        AND worker.unlocked_at
                            < clock_timestamp() - interval '2 seconds'
                    )
                )
                AND NOT EXISTS (
                    SELECT FROM pg_catalog.pg_locks
                    WHERE locktype = 'advisory'
                        AND database = (
                            SELECT oid FROM pg_catalog.pg_database
                            WHERE datname = current_database()
                        )
                        AND CASE
                            WHEN worker.lock_key IS NULL
                                THEN classid = %(lock_class)s AND objid = worker.id
                                    AND objsubid = 2
                            ELSE objsubid = 1 AND worker.lock_key
                                = (classid::bigint << 32) | objid::bigint
                        END
                )
            )
        )
),
-- The ids that no living worker has. So what living ones run is not looked at, nor the
-- dead tuples of what they ran, which VACUUM keeps while an old snapshot lasts.
ownerless (first_id, last_id) AS (
    SELECT id, id FROM dead_worker
    UNION ALL
    SELECT lag(id, 1, 0::bigint) OVER (ORDER BY id) + 1, id - 1 FROM pgjobs_worker
    UNION ALL
    SELECT coalesce(max(id), 0) + 1, 9223372036854775807 FROM pgjobs_worker
),
-- Read first, then locked by its token: a job that was recorded, or rescued and
-- claimed again in between has another one and is left alone (EvalPlanQual).
abandoned AS MATERIALIZED (
    SELECT job.id, job.lease_token
    FROM ownerless CROSS JOIN LATERAL (
        SELECT id, lease_token FROM pgjobs_job
        WHERE first_id <= last_id AND status = 'RUNNING'
            AND worker_id BETWEEN ownerless.first_id AND ownerless.last_id
            AND worker_id <> %(worker_id)s
            AND (%(only)s::bigint[] IS NULL OR id = ANY (%(only)s::bigint[]))
            AND NOT id = ANY (%(skipped)s::bigint[])
        LIMIT %(limit)s
    ) AS job
    ORDER BY job.id
    LIMIT %(limit)s
),
-- A prefetched job (worker/record_and_claim.sql) may not have begun, so the loss of that
-- worker is no crash of the job. If another worker is lost under the job, both count. So
-- a job that kills its process fails after as many crashes as any other, and an innocent
-- one has still run alone before it fails.
lost AS MATERIALIZED (
    SELECT job.id, job.life, job.attempts, job.last_attempted_at, job.worker_id,
        counted,
        halved,
        CASE
            WHEN job.cancel_requested_at IS NOT NULL THEN 'CANCELLED'
            WHEN job.crashes + counted >= job.max_crashes THEN 'FAILED'
            ELSE 'READY'
        END AS next_status
    FROM pgjobs_job AS job
    CROSS JOIN pgjobs_halved_call(job.chunk, job.life, job.attempts) AS halved
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN halved IS NOT NULL THEN 0
            -- Only first attempts are prefetched; of later ones this may mean that
            -- the clock was set back.
            WHEN job.attempts = 1 AND job.started_at > job.last_attempted_at THEN 0
            WHEN job.crashes = 0 AND job.max_crashes > 2 AND job.chunk IS NULL AND EXISTS (
                SELECT FROM pgjobs_attempt
                WHERE job_id = job.id AND life = job.life AND outcome = 'CRASHED'
            )
                THEN 2
            -- It runs beside others even then, and the loss may be the fault of one.
            WHEN job.crashes + 1 >= job.max_crashes AND job.max_crashes > 1
                AND job.keys ? 'isolated' AND job.max_crashes * 2 > (
                    SELECT count(*) FROM pgjobs_attempt
                    WHERE job_id = job.id AND life = job.life AND outcome = 'CRASHED'
                )
                THEN 0
            ELSE 1
        END AS counted
    ) AS crash
    WHERE job.id = ANY (ARRAY(SELECT id FROM abandoned))
        AND job.lease_token = ANY (ARRAY(SELECT lease_token FROM abandoned))
        -- That is, RUNNING; but not by the index of what runs, see
        -- worker/record/success.sql.
        AND job.worker_id IS NOT NULL
    ORDER BY job.id
    FOR NO KEY UPDATE OF job SKIP LOCKED
),
-- No join: where the planner expects hardly any job, it would read all of them for each.
rescued AS (
    UPDATE pgjobs_job AS job
    SET worker_id = NULL,
        -- Fenced: its worker may live after all, and a row without owner would
        -- look to it as if it had recorded the outcome itself.
        lease_token = CASE
            WHEN job.lease_token < nextval('pgjobs_lease_token')
                THEN currval('pgjobs_lease_token')
            ELSE pgjobs_token_beyond(job.lease_token)
        END,
        (status, run_after, crashes, finished_at, chunk, reason) = (
            SELECT lost.next_status,
                -- It waits from now on.
                CASE WHEN lost.next_status = 'READY' THEN clock_timestamp()
                    ELSE job.run_after END,
                -- SQL may have stored more crashes than attempts, or the largest number.
                least(job.crashes + counted, job.attempts, 32767),
                CASE WHEN lost.next_status <> 'READY' THEN clock_timestamp() END,
                coalesce(lost.halved, job.chunk),
                CASE
                    WHEN lost.next_status = 'CANCELLED'
                        THEN 'Cancelled; its worker was lost.'
                    WHEN lost.halved IS NOT NULL
                        THEN 'Worker lost under a call of several jobs, which counts for '
                            'none of them. The halves of the call run apart.'
                    WHEN counted = 0 AND job.crashes > 0
                        THEN 'Worker lost, perhaps by another job beside it.'
                    WHEN counted = 0 THEN 'Worker lost, perhaps before the job began.'
                    ELSE format(
                        'Worker lost (crash %%s of %%s).', job.crashes + counted,
                        job.max_crashes
                    )
                END
            FROM lost WHERE lost.id = job.id
        )
    WHERE id = ANY (ARRAY(SELECT id FROM lost))
    RETURNING job.id, job.task, job.queue_name, job.status, job.crashes
),
stored_attempt AS (
    INSERT INTO pgjobs_attempt
        (job_id, life, number, worker_name, started_at, finished_at, outcome, message)
    SELECT lost.id, lost.life, lost.attempts,
        coalesce(worker.name, format('worker %%s', lost.worker_id)),
        lost.last_attempted_at, clock_timestamp(), 'CRASHED', 'Worker lost.'
    FROM lost LEFT JOIN pgjobs_worker AS worker ON worker.id = lost.worker_id
    ON CONFLICT (job_id, life, number) DO NOTHING
),
-- A dead worker's row goes when no job refers to it. A living worker makes it again.
buried AS (
    DELETE FROM pgjobs_worker AS worker
    USING dead_worker
    WHERE worker.id = dead_worker.id
        AND NOT EXISTS (
            SELECT FROM pgjobs_job AS job
            WHERE job.status = 'RUNNING' AND job.worker_id = worker.id
            OFFSET 0  -- or all that run would be joined with the dead workers
        )
)
SELECT id, task, queue_name, status, crashes FROM rescued
