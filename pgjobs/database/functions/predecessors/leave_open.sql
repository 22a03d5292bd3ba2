-- Leave notes of links that could not be closed, because there were too many, or
-- because other transactions hold the rows of the jobs. Return the number of notes.
CREATE OR REPLACE FUNCTION pgjobs_leave_open(ids bigint[], batches bigint[])
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    number integer;
    number_of_batches integer := 0;
BEGIN
    INSERT INTO pgjobs_note (job_id)
    SELECT id FROM unnest(ids) AS given (id)
    WHERE NOT EXISTS (
            SELECT FROM pgjobs_job WHERE id = given.id AND finished_at IS NULL
            OFFSET 0
        )
        AND EXISTS (
            SELECT FROM pgjobs_predecessor
            WHERE predecessor_id = given.id AND is_open
            OFFSET 0
        );
    GET DIAGNOSTICS number = ROW_COUNT;
    IF batches IS NOT NULL THEN
        INSERT INTO pgjobs_note (keys)
        SELECT jsonb_build_object('batch_id', id) FROM unnest(batches) AS given (id)
        CROSS JOIN LATERAL pgjobs_batch_outcome(id)
        WHERE EXISTS (
            SELECT FROM pgjobs_predecessor
            WHERE batch_id = given.id AND is_open
                AND (outcome <> 'UNFINISHED' OR needs = 'failure' AND failed IS NOT NULL)
            OFFSET 0
        );
        GET DIAGNOSTICS number_of_batches = ROW_COUNT;
    END IF;
    RETURN number + number_of_batches;
END
$$;
