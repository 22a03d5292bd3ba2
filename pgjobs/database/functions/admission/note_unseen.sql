-- Leave notes of jobs whose rows other transactions hold, so that an admission looks at
-- their lines again; return how many. (Any admission looks at "arrived".)
CREATE OR REPLACE FUNCTION pgjobs_note_unseen(ids bigint[], seen bigint[])
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    number integer;
BEGIN
    INSERT INTO pgjobs_note (keys)
    SELECT DISTINCT CASE line WHEN 'arrived' THEN '{}' ELSE coalesce(keys, '{}') END
    FROM pgjobs_job
    WHERE id = ANY (ids) AND NOT id = ANY (seen) AND status = 'WAITING';
    GET DIAGNOSTICS number = ROW_COUNT;
    RETURN number;
END
$$;
