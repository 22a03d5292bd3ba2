-- Open the waits of jobs that are being suspended, and leave a note of each job. Rows of
-- other waits, and of ways that the task does not name any more, go: after a deploy they
-- would wake the job for nothing. Those that an answer holds stay until the next time.
--
-- A wait that was opened before keeps its deadline. Then something has woken the job in
-- vain, or an answer is about to be committed, so no worker looks again at once.
--
-- All arrays have the jobs in the same order. They are NULL if no job waits.
CREATE OR REPLACE FUNCTION pgjobs_open_waits(
    jobs bigint[], lives integer[], names text[], all_ways jsonb[], ends timestamptz[],
    worker bigint
) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off
SET search_path FROM CURRENT
AS $$
DECLARE
    first_deadlines timestamptz[];
    have_rows boolean;
    asks record;
    others bigint[];
BEGIN
    IF jobs IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(before.first_deadline ORDER BY number), bool_or(has_rows)
    INTO first_deadlines, have_rows
    FROM unnest(jobs, lives, names) WITH ORDINALITY AS given (job, life, name, number)
    CROSS JOIN LATERAL (
        SELECT count(*) > 0 AS has_rows, min(deadline) FILTER (
            WHERE wait.life = given.life AND wait.name = given.name
        ) AS first_deadline
        FROM pgjobs_wait AS wait
        WHERE wait.job_id = given.job AND wait.life <= given.life AND ended_at IS NULL
    ) AS before;
    IF have_rows THEN
        DELETE FROM pgjobs_wait
        WHERE id = ANY (ARRAY(
            SELECT wait.id
            FROM unnest(jobs, lives, names, all_ways) AS given (job, life, name, ways)
            JOIN pgjobs_wait AS wait ON wait.job_id = given.job
                AND wait.life <= given.life AND wait.ended_at IS NULL
            WHERE NOT EXISTS (
                SELECT FROM jsonb_to_recordset(given.ways) AS way (
                    label text, kind text, event text, aggregate_id text, asked jsonb,
                    jobs jsonb
                )
                WHERE wait.life = given.life
                    AND wait.name = given.name AND wait.label = coalesce(way.label, '')
                    AND ROW(wait.kind, wait.event, wait.aggregate_id, wait.asked)
                        IS NOT DISTINCT FROM ROW(
                            way.kind, way.event, way.aggregate_id,
                            coalesce(way.jobs, way.asked)
                        )
            )
            FOR UPDATE OF wait SKIP LOCKED
        ));
    END IF;
    INSERT INTO pgjobs_wait
        (job_id, life, name, label, kind, event, aggregate_id, asked, permission, deadline,
        worker_id)
    SELECT job, life, name, coalesce(label, ''), kind, event, aggregate_id,
        coalesce(way.jobs, way.asked),
        CASE kind
            WHEN 'answer' THEN coalesce(way.asked ->> 'permission', 'pgjobs.answer_job')
        END,
        coalesce(first_deadline, ends_at), worker
    FROM unnest(jobs, lives, names, all_ways, ends, first_deadlines)
        AS given (job, life, name, ways, ends_at, first_deadline)
    CROSS JOIN jsonb_to_recordset(given.ways) AS way (
        label text, kind text, event text, aggregate_id text, asked jsonb, jobs jsonb
    )
    ON CONFLICT DO NOTHING;
    INSERT INTO pgjobs_waitnote (job_id, due_at, after)
    SELECT job,
        clock_timestamp() + CASE
            WHEN first_deadline IS NULL THEN '0' ELSE interval '1 second'
        END,
        CASE WHEN ways @? '$[*].jobs' THEN -1 ELSE 0 END  -- it may close a circle
    FROM unnest(jobs, all_ways, first_deadlines) AS given (job, ways, first_deadline);
    FOR asks IN
        SELECT job, ways FROM unnest(jobs, all_ways) AS given (job, ways)
        WHERE ways @? '$[*].jobs'
    LOOP
        -- As of a chain, so that an admission notices the ends of the others.
        others := ARRAY(
            SELECT DISTINCT pgjobs_newest(
                jsonb_array_elements_text(way -> 'jobs')::bigint
            )
            FROM jsonb_array_elements(asks.ways) AS way
        );
        INSERT INTO pgjobs_predecessor (job_id, predecessor_id, needs)
        SELECT asks.job, unnest(others), 'end'
        -- It had ended, and was retried; or it is in the job's own chain.
        ON CONFLICT (job_id, predecessor_id) DO UPDATE SET is_open = true, needs = 'end'
        WHERE pgjobs_predecessor.needs <> 'dependency';
        PERFORM pgjobs_mark(others);
    END LOOP;
END
$$;
