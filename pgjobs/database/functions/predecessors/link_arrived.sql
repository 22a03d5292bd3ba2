-- Make the links of jobs that have arrived, and close those whose predecessor has
-- ended. Mark the other predecessors. By the mark an admission sees at their end that
-- other jobs wait for them. `followers` has other jobs that had waited for the same
-- predecessors.
CREATE OR REPLACE FUNCTION pgjobs_link_arrived(
    ids bigint[], most integer, OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    linked bigint[] := ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (ids) AND (line = 'unlinked' OR dependencies IS NOT NULL)
    );
    predecessors bigint[];
    batches bigint[];
BEGIN
    followers := '{}';
    ended := '{}';
    IF linked = '{}' THEN
        RETURN;
    END IF;
    INSERT INTO pgjobs_predecessor (
        job_id, predecessor_id, batch_id, needs, gives_result
    )
    SELECT id, predecessor_id, named.batch_id, coalesce(keys ->> 'needs', 'success'),
        keys ? 'results'
    FROM pgjobs_job AS job
    CROSS JOIN LATERAL (
        SELECT each.id::bigint, NULL::bigint
        FROM jsonb_array_elements_text(keys -> 'after') AS each (id)
        UNION ALL
        SELECT NULL::bigint, each.id::bigint
        FROM jsonb_array_elements_text(keys -> 'after_batches') AS each (id)
    ) AS named (predecessor_id, batch_id)
    WHERE id = ANY (linked)
    ON CONFLICT DO NOTHING;
    SELECT coalesce(array_agg(DISTINCT predecessor_id), '{}'),
        coalesce(array_agg(DISTINCT batch_id), '{}')
    INTO predecessors, batches
    FROM (
        SELECT predecessor_id, batch_id, is_open FROM pgjobs_predecessor
        WHERE job_id = ANY (linked)
        OFFSET 0  -- or the planner would walk over all open links
    ) AS link
    WHERE is_open;
    PERFORM pgjobs_mark(predecessors);
    SELECT found.followers, found.ended INTO followers, ended
    FROM pgjobs_follow(predecessors, batches, most) AS found;
END
$$;
