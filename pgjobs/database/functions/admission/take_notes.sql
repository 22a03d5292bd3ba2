-- Take a batch of notes: keys that have room, and jobs and batches whose followers must
-- be looked at. `number`: how many notes this deleted.
CREATE OR REPLACE FUNCTION pgjobs_take_notes(
    most integer, OUT number integer,
    OUT touched jsonb[], OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
    batches bigint[];
BEGIN
    followers := '{}';
    ended := '{}';
    WITH note AS (
        DELETE FROM pgjobs_note
        WHERE id = ANY (ARRAY(SELECT id FROM pgjobs_note ORDER BY id LIMIT most))
        RETURNING job_id, keys
    )
    SELECT count(*), array_agg(job_id) FILTER (WHERE job_id IS NOT NULL),
        array_agg((keys ->> 'batch_id')::bigint) FILTER (WHERE keys ? 'batch_id'),
        coalesce(array_agg(keys) FILTER (WHERE keys IS NOT NULL), '{}')
    INTO number, ids, batches, touched FROM note;
    IF EXISTS (SELECT FROM unnest(touched) AS keys WHERE keys ? 'rate_key') THEN
        PERFORM pgjobs_take_starts(touched);
    END IF;
    IF coalesce(ids, batches) IS NOT NULL THEN
        number := number - pgjobs_mark(ids);
        SELECT pgjobs_take_notes.number - found.number, found.followers, found.ended
        INTO number, followers, ended
        FROM pgjobs_follow(ids, batches, most) AS found;
    END IF;
END
$$;
