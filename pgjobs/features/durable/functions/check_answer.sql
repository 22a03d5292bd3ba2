-- Return an answer as it is stored; raise an error if it cannot be one. If the job asks by
-- this name, the type that it asks for decides. A worker checks the answer once more when
-- it takes it.
CREATE OR REPLACE FUNCTION pgjobs_check_answer(job bigint, answer_name text, answer jsonb)
RETURNS jsonb LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET search_path FROM CURRENT
AS $$
DECLARE
    most CONSTANT integer := 64000;  -- bytes, as of the result of a step
    schema jsonb;
    checked record;
BEGIN
    IF length(answer_name) BETWEEN 1 AND 200 IS NOT TRUE THEN
        RAISE EXCEPTION 'The name of an answer must be 1 to 200 characters, got %.',
            coalesce(quote_literal(left(answer_name, 100)), 'NULL')
            USING ERRCODE = '22023', COLUMN = 'name';
    END IF;
    IF answer IS NULL OR answer = 'null' THEN
        RAISE EXCEPTION 'An answer cannot be null: None says that the time is over.'
            USING ERRCODE = '22004', COLUMN = 'value';
    END IF;
    IF pgjobs_json_size(answer, most) > most THEN
        RAISE EXCEPTION 'The answer is % bytes of JSON, more than the % that are stored.',
            pgjobs_json_size(answer, most), most
            USING ERRCODE = '22023', COLUMN = 'value';
    END IF;
    -- Python has encrypted it for a job with the mark: its worker looks at the value.
    IF jsonb_typeof(answer -> 'pgjobs_encrypted') = 'string' AND EXISTS (
        SELECT FROM pgjobs_job AS each
        WHERE each.id = pgjobs_newest(job) AND each.keys ? 'encrypted'
    ) THEN
        RETURN answer;
    END IF;
    schema := (
        SELECT wait.asked -> 'schema' FROM pgjobs_job
        JOIN pgjobs_wait AS wait
            ON wait.job_id = pgjobs_job.id AND wait.life = pgjobs_job.life
        WHERE pgjobs_job.id = pgjobs_newest(job)
            AND wait.kind = 'answer' AND wait.ended_at IS NULL
            AND coalesce(nullif(wait.label, ''), wait.name) = answer_name
        LIMIT 1
    );
    IF schema IS NULL THEN
        RETURN answer;
    END IF;
    SELECT * INTO checked FROM pgjobs_checked(schema, answer);
    IF checked.fault IS NOT NULL THEN
        RAISE EXCEPTION 'Invalid answer to %: %.', quote_literal(answer_name), checked.fault
            USING ERRCODE = '22023', COLUMN = 'value';
    END IF;
    RETURN checked.stored;
END
$$;
