-- Delete the links by which jobs waited for the ends of others. Those of a chain stay,
-- closed and as they were: `after` names the others, or jobs that go on as these. The first
-- look is for the many jobs that have no such link.
CREATE OR REPLACE FUNCTION pgjobs_drop_waited_links(ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    links CONSTANT bigint[] := ARRAY(
        SELECT link.id FROM unnest(ids) AS given (id)
        CROSS JOIN LATERAL (
            SELECT id FROM pgjobs_predecessor
            WHERE job_id = given.id AND needs = 'end' AND predecessor_id IS NOT NULL
            OFFSET 0
        ) AS link
    );
    of_chains bigint[];
BEGIN
    IF links = '{}' THEN
        RETURN;
    END IF;
    WITH chained AS (
        UPDATE pgjobs_predecessor AS link
        SET is_open = false, needs = coalesce(job.keys ->> 'needs', 'success')
        FROM pgjobs_job AS job
        WHERE link.id = ANY (links) AND job.id = link.job_id
            AND EXISTS (
                SELECT FROM jsonb_array_elements_text(job.keys -> 'after') AS after (id)
                WHERE link.predecessor_id IN (after.id::bigint, pgjobs_newest(after.id::bigint))
            )
        RETURNING link.id
    )
    SELECT array_agg(id) INTO of_chains FROM chained;
    DELETE FROM pgjobs_predecessor
    WHERE id = ANY (links) AND id <> ALL (coalesce(of_chains, '{}'));
END
$$;
