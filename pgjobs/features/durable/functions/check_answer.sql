-- Return an answer as it is stored; raise an error if it cannot be one. If the job asks by
-- this name, the type that it asks for decides. A worker checks the answer once more when
-- it takes it.
CREATE OR REPLACE FUNCTION pgjobs_check_answer(answer_name text, answer jsonb, schema jsonb)
RETURNS jsonb LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    most CONSTANT integer := 64000;  -- bytes, as of the result of a step
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
