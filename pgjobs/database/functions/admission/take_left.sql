-- Take a batch of the jobs that have ended or gone back: their successors may follow,
-- and their keys have room.
CREATE OR REPLACE FUNCTION pgjobs_take_left(
    most integer, OUT number integer,
    OUT freed_keys jsonb[], OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    linked bigint[];
    batches bigint[];
BEGIN
    followers := '{}';
    ended := '{}';
    WITH taken AS (
        UPDATE pgjobs_job SET line = NULL
        WHERE id = ANY (ARRAY(
            SELECT id FROM pgjobs_job WHERE line IN ('recorded', 'left')
            LIMIT most FOR NO KEY UPDATE SKIP LOCKED
        ))
        RETURNING id, keys, batch_id, finished_at
    )
    SELECT count(*),
        coalesce(
            array_agg(keys) FILTER (WHERE keys ?| ARRAY['lock', 'limit_key']), '{}'
        ),
        array_agg(id) FILTER (
            WHERE keys ? 'has_successors' AND finished_at IS NOT NULL
        ),
        array_agg(DISTINCT batch_id) FILTER (
            WHERE batch_id IS NOT NULL AND finished_at IS NOT NULL
        )
    INTO number, freed_keys, linked, batches
    FROM taken;
    IF coalesce(linked, batches) IS NOT NULL THEN
        SELECT found.followers, found.ended INTO followers, ended
        FROM pgjobs_follow(linked, batches, most) AS found;
    END IF;
END
$$;
