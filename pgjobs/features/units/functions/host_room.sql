-- Return how many process units are free on a host.
--
-- They are counted for each claim, from running rows alone, so that nothing can leak:
-- the jobs of a dead worker take units until their rescue. If its row is gone, nothing
-- says where it was: they take units of each host. The count is made under a
-- lock that is held until the claim is committed. No worker waits for that lock:
-- without it `free` is NULL, and the worker looks again (as for pgjobs_room). VOLATILE
-- lets the count see what was committed since the statement began, and what the
-- statement itself has recorded.
--
-- No job behind (last_priority, last_turn) may start. That is the place of a job that
-- has waited for units for longer than `patience`. Units that become free are kept for
-- it. Of the jobs that take the same number of units, only the first ones in claim order
-- are looked at: if they cannot start, they will have waited for long themselves.
CREATE OR REPLACE FUNCTION pgjobs_host_room(
    here text, total bigint, patience double precision,
    OUT free bigint, OUT last_priority integer, OUT last_turn bigint
) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- The class of these locks: "pgju" in ASCII.
    IF NOT pg_catalog.pg_try_advisory_xact_lock(
        1885825653, pg_catalog.hashtext(here)
    ) THEN
        RETURN;
    END IF;
    SELECT greatest(total - coalesce(sum(units), 0), 0)
    INTO free
    FROM (
        SELECT id, id FROM pgjobs_worker WHERE host = here
        UNION ALL
        SELECT lag(id, 1, 0::bigint) OVER (ORDER BY id) + 1, id - 1 FROM pgjobs_worker
        UNION ALL
        SELECT coalesce(max(id), 0) + 1, 9223372036854775807 FROM pgjobs_worker
    ) AS worker (first_id, last_id)  -- of this host, or without a row
    CROSS JOIN LATERAL (
        -- A call of many jobs counts as one, by its first: see pgjobs_room.
        SELECT CASE
            WHEN chunk ->> 'first' <> id::text
                AND chunk ->> 'attempt' = life || ':' || attempts THEN 0
            ELSE coalesce(process_units, 1)
        END AS units
        FROM pgjobs_job
        WHERE worker_id BETWEEN worker.first_id AND worker.last_id
            AND worker.first_id <= worker.last_id AND status = 'RUNNING'
        OFFSET 0  -- asked for each worker: no join with all that run
    ) AS job;

    WITH RECURSIVE weight (queue_name, units) AS (
        SELECT ''::varchar, 0::bigint
        UNION ALL
        SELECT next.*
        FROM weight CROSS JOIN LATERAL (
            SELECT job.queue_name, coalesce(job.process_units, 0) FROM pgjobs_job AS job
            WHERE job.status = 'READY'
                AND (job.queue_name, coalesce(job.process_units, 0)) > (
                    weight.queue_name,
                    CASE WHEN units > total THEN 9223372036854775807
                    ELSE greatest(units, free) END
                )
            ORDER BY job.queue_name, coalesce(job.process_units, 0) LIMIT 1
        ) AS next
    )
    SELECT job.priority, job.turn INTO last_priority, last_turn
    FROM weight CROSS JOIN LATERAL (
        SELECT first.priority, first.turn
        FROM (
            SELECT ready.priority, ready.turn,
                greatest(ready.enqueued_at, ready.run_after, ready.last_attempted_at)
                    AS waits_since
            FROM pgjobs_job AS ready
            WHERE ready.status = 'READY' AND ready.queue_name = weight.queue_name
                AND coalesce(ready.process_units, 0) = weight.units
            ORDER BY ready.priority DESC, ready.turn LIMIT 100
        ) AS first
        WHERE waits_since <= clock_timestamp() - make_interval(secs => patience)
        ORDER BY first.priority DESC, first.turn LIMIT 1
    ) AS job
    WHERE weight.units > free AND weight.units <= total
        -- A job that no worker of the host would claim does not wait for units.
        AND EXISTS (
            SELECT FROM pgjobs_worker AS worker
            WHERE worker.host = here
                AND worker.units >= weight.units
                AND worker.lease_until > clock_timestamp()
                AND (
                    worker.queues = ''
                    OR weight.queue_name = ANY (string_to_array(worker.queues, ','))
                )
                AND NOT weight.queue_name
                    = ANY (string_to_array(worker.excluded, ','))
        )
        AND NOT EXISTS (
            SELECT FROM pgjobs_queue AS queue
            WHERE queue.name = weight.queue_name
                AND (
                    queue.paused_at IS NOT NULL
                    OR queue.max_running <= (
                        SELECT count(*) FROM pgjobs_job AS other
                        WHERE other.status = 'RUNNING'
                            AND other.queue_name = queue.name
                            AND (
                                chunk ->> 'first' <> id::text
                                AND chunk ->> 'attempt' = life || ':' || attempts
                            ) IS NOT TRUE
                    )
                )
        )
    ORDER BY job.priority DESC, job.turn
    LIMIT 1;
    -- No job waits for units: a place behind all others.
    last_priority := coalesce(last_priority, -1000);
    last_turn := coalesce(last_turn, 0);
END
$$;
