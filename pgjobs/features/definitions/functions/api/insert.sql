-- Insert a job, or do what `on_conflict` says if another job holds its unique key.
-- Return its id, or the id of the job that there is instead, or NULL. Python's enqueue
-- has INSERTs of its own, because it inserts thousands in one statement, and most find
-- their key free. What follows a conflict is rare and stands in functions that both call.
CREATE OR REPLACE FUNCTION pgjobs_insert(job pgjobs_job, on_conflict text)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    inserted bigint;
BEGIN
    LOOP
        INSERT INTO pgjobs_job ($all_columns)
        SELECT $all_columns FROM (SELECT job.*) AS given
        ON CONFLICT (unique_key, unique_for)
            WHERE unique_key IS NOT NULL
                AND pgjobs_holds_key(
                    unique_for, unique_until, status, attempts, finished_at
                )
            DO NOTHING
        RETURNING id INTO inserted;
        IF NOT FOUND THEN
            inserted := pgjobs_conflict(job, on_conflict);
        END IF;
        IF inserted IS DISTINCT FROM 0 THEN
            RETURN inserted;
        END IF;
    END LOOP;
END
$$;
