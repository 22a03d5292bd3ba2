-- Open a wait of a job that is being suspended, and leave a note of the job. Rows of other
-- waits, and of ways that the task does not name any more, go: after a deploy they would
-- wake the job for nothing. Those that an answer holds stay until the next time.
--
-- A wait that was opened before keeps its deadline. Then something has woken the job in
-- vain, or an answer is about to be committed, so no worker looks again at once.
CREATE OR REPLACE FUNCTION pgjobs_open_wait(
    job bigint, of_life integer, wait_name text, ways jsonb, ends_at timestamptz,
    worker bigint
) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    first_deadline timestamptz;
    has_rows boolean;
    others bigint[];
BEGIN
    SELECT min(deadline) FILTER (WHERE life = of_life AND name = wait_name), count(*) > 0
    INTO first_deadline, has_rows
    FROM pgjobs_wait
    WHERE job_id = job AND life <= of_life AND ended_at IS NULL;
    IF has_rows THEN
        DELETE FROM pgjobs_wait
        WHERE id = ANY (ARRAY(
            SELECT id FROM pgjobs_wait AS wait
            WHERE job_id = job AND life <= of_life AND ended_at IS NULL
                AND NOT EXISTS (
                    SELECT FROM jsonb_to_recordset(ways) AS way (
                        label text, kind text, event text, aggregate_id text, asked jsonb,
                        jobs jsonb
                    )
                    WHERE wait.life = of_life
                        AND wait.name = wait_name AND wait.label = coalesce(way.label, '')
                        AND ROW(wait.kind, wait.event, wait.aggregate_id, wait.asked)
                            IS NOT DISTINCT FROM ROW(
                                way.kind, way.event, way.aggregate_id,
                                coalesce(way.jobs, way.asked)
                            )
                )
            FOR UPDATE SKIP LOCKED
        ));
    END IF;
    INSERT INTO pgjobs_wait
        (job_id, life, name, label, kind, event, aggregate_id, asked, permission, deadline,
        worker_id)
    SELECT job, of_life, wait_name, coalesce(label, ''), kind, event, aggregate_id,
        coalesce(jobs, asked),
        CASE kind
            WHEN 'answer' THEN coalesce(asked ->> 'permission', 'pgjobs.answer_job')
        END,
        coalesce(first_deadline, ends_at), worker
    FROM jsonb_to_recordset(ways) AS way (
        label text, kind text, event text, aggregate_id text, asked jsonb, jobs jsonb
    )
    ON CONFLICT DO NOTHING;
    INSERT INTO pgjobs_waitnote (job_id, due_at, after)
    VALUES (
        job,
        clock_timestamp() + CASE
            WHEN first_deadline IS NULL THEN '0' ELSE interval '1 second'
        END,
        CASE WHEN ways @? '$[*].jobs' THEN -1 ELSE 0 END  -- it may close a circle
    );
    IF ways @? '$[*].jobs' THEN
        -- As of a chain, so that an admission notices the ends of the others.
        others := ARRAY(
            SELECT DISTINCT pgjobs_newest(
                jsonb_array_elements_text(way -> 'jobs')::bigint
            )
            FROM jsonb_array_elements(ways) AS way
        );
        INSERT INTO pgjobs_predecessor (job_id, predecessor_id, needs)
        SELECT job, unnest(others), 'end'
        -- It had ended, and was retried; or it is in the job's own chain.
        ON CONFLICT (job_id, predecessor_id) DO UPDATE SET is_open = true, needs = 'end'
        WHERE pgjobs_predecessor.needs <> 'dependency';
        PERFORM pgjobs_mark(others);
    END IF;
END
$$;
