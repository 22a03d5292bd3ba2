-- Take a batch of notes: keys that have room, and jobs and batches whose followers must
-- be looked at. `number`: how many notes this deleted. A start frees no key: it takes
-- the place that its job has had since it was admitted, so no other one may start now,
-- and none earlier than was known.
CREATE OR REPLACE FUNCTION pgjobs_take_notes(
    most integer, OUT number integer,
    OUT freed_keys jsonb[], OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
    batches bigint[];
    starts jsonb[];
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
        array_agg(keys) FILTER (WHERE keys ?| ARRAY['rate_started_at', 'rate_returned_at']),
        coalesce(array_agg(keys) FILTER (WHERE NOT keys ? 'rate_started_at'), '{}')
    INTO number, ids, batches, starts, freed_keys FROM note;
    IF starts IS NOT NULL THEN
        PERFORM pgjobs_take_starts(starts);
    END IF;
    IF coalesce(ids, batches) IS NOT NULL THEN
        number := number - pgjobs_mark(ids);
        SELECT pgjobs_take_notes.number - found.number, found.followers, found.ended
        INTO number, followers, ended
        FROM pgjobs_follow(ids, batches, most) AS found;
    END IF;
END
$$;
