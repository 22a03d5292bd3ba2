-- Jobs that wait for a dependency about which no worker has decided yet.
-- Returns nothing while another worker decides, because two could enqueue the same job.
-- Jobs of tasks that this worker does not know are taken only after their grace, whose begin
-- the first such worker notes: see database/functions/jobs/put_back_since.sql.
WITH own AS MATERIALIZED (
    -- "pgjd" in ASCII
    SELECT pg_try_advisory_xact_lock(1885825636, 0) AS may_decide
),
seen AS MATERIALIZED (
    SELECT id, reason, task = ANY (%(tasks)s::text[]) AS is_known,
        pgjobs_put_back_since(reason) AS since
    FROM pgjobs_job
    WHERE id = ANY (ARRAY(
            SELECT id FROM pgjobs_job
            WHERE (SELECT may_decide FROM own) AND line = 'undecided'
            LIMIT %(most)s
        ))
        AND line = 'undecided'
),
due AS MATERIALIZED (
    SELECT id FROM seen
    WHERE is_known OR since <= to_char(
        clock_timestamp() AT TIME ZONE 'UTC'
            - make_interval(secs => %(unknown_task_grace)s),
        'YYYY-MM-DD HH24:MI:SS'
    )
),
told AS (
    UPDATE pgjobs_job
    SET reason = format(
        'No task registered as ''%%s''. Put back since %%s UTC.', left(task, 900),
        pgjobs_put_back_since(reason)
    )
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (ARRAY(
                SELECT id FROM seen
                WHERE right(reason, 40) <> format(' Put back since %%s UTC.', since)
                    AND id NOT IN (SELECT id FROM due)
            ))
            AND line = 'undecided'
        FOR NO KEY UPDATE SKIP LOCKED
    ))
)
SELECT id, task, args::text, kwargs::text, priority
FROM pgjobs_job
WHERE id = ANY (ARRAY(SELECT id FROM due)) AND line = 'undecided'
LIMIT %(limit)s
FOR NO KEY UPDATE SKIP LOCKED
