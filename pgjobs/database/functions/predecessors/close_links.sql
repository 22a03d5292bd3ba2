-- Close the links to those of these jobs that have ended, and to these batches.
-- `followers` has jobs that may have nothing more to wait for. `ended` has the jobs
-- that needed another outcome of their predecessor. This function ended them. Links to
-- jobs that go on as other jobs are moved to those.
CREATE OR REPLACE FUNCTION pgjobs_close_links(
    ids bigint[], batches bigint[], most integer,
    OUT followers bigint[], OUT ended bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    unmet_links jsonb;
    waiting bigint[];
    going_on bigint[];
BEGIN
    ended := '{}';
    WITH resolved AS MATERIALIZED (
        (SELECT link.id AS link_id, link.job_id, link.needs, link.batch_id, outcome,
            link.predecessor_id AS culprit
        FROM (
            SELECT given.id, CASE
                    WHEN goes_on IS NOT TRUE AND job.id IS NOT NULL THEN job.status
                    WHEN pgjobs_newest(given.id) = given.id THEN 'GONE'
                    ELSE 'GOES_ON'
                END AS outcome
            FROM unnest(ids) AS given (id)
            LEFT JOIN LATERAL (
                SELECT id, status, finished_at, keys ? 'continued_as' AS goes_on
                FROM pgjobs_job
                WHERE pgjobs_job.id = given.id
                OFFSET 0  -- asked for each: no join with all jobs
            ) AS job ON true
            WHERE job.id IS NULL OR job.finished_at IS NOT NULL
        ) AS predecessor
        CROSS JOIN LATERAL (
            SELECT * FROM pgjobs_predecessor AS each
            WHERE each.predecessor_id = predecessor.id AND each.is_open
            LIMIT most
        ) AS link
        LIMIT most)
        UNION ALL
        (SELECT link.id, link.job_id, link.needs, link.batch_id,
            CASE outcome WHEN 'UNFINISHED' THEN 'FAILED' ELSE outcome END,
            coalesce(culprit, failed)
        FROM unnest(batches) AS given (id)
        CROSS JOIN LATERAL pgjobs_batch_outcome(given.id)
        CROSS JOIN LATERAL (
            SELECT * FROM pgjobs_predecessor AS each
            WHERE each.batch_id = given.id AND each.is_open
                AND (
                    outcome <> 'UNFINISHED'
                    OR each.needs = 'failure' AND failed IS NOT NULL
                )
            LIMIT most
        ) AS link
        LIMIT most)
    ),
    -- Another transaction may hold the row of a follower; then its link stays open.
    held AS MATERIALIZED (
        SELECT id, finished_at, waiting_for FROM pgjobs_job
        WHERE id = ANY (ARRAY(SELECT job_id FROM resolved))
        FOR NO KEY UPDATE SKIP LOCKED
    ),
    closed AS (
        UPDATE pgjobs_predecessor SET is_open = false
        WHERE id = ANY (ARRAY(
            SELECT link_id FROM resolved
            WHERE outcome <> 'GOES_ON' AND job_id IN (SELECT id FROM held)
                OR NOT EXISTS (
                    SELECT FROM pgjobs_job WHERE id = resolved.job_id OFFSET 0
                )
        ))
    ),
    unmet AS MATERIALIZED (
        SELECT DISTINCT ON (job_id) resolved.* FROM resolved
        WHERE NOT pgjobs_meets(needs, outcome) AND outcome <> 'GOES_ON'
            AND job_id IN (SELECT id FROM held WHERE finished_at IS NULL)
        ORDER BY job_id, link_id
    )
    SELECT ARRAY(
            SELECT id FROM held
            WHERE finished_at IS NULL AND id NOT IN (SELECT job_id FROM unmet)
        ),
        (SELECT jsonb_agg(to_jsonb(unmet)) FROM unmet),
        (SELECT array_agg(id) FROM held WHERE waiting_for = 'jobs'),
        (
            SELECT array_agg(link_id) FROM resolved
            WHERE outcome = 'GOES_ON' AND job_id IN (SELECT id FROM held)
        )
    INTO followers, unmet_links, waiting, going_on;
    IF going_on IS NOT NULL THEN
        PERFORM pgjobs_move_links(going_on);
    END IF;
    IF waiting IS NOT NULL THEN  -- their tasks wait for these ends
        PERFORM pgjobs_note_waiting(waiting);
    END IF;
    -- Rare, and a statement of its own: to begin an UPDATE costs more than all the rest.
    IF unmet_links IS NOT NULL THEN
        ended := pgjobs_end_unmet(unmet_links);
    END IF;
END
$$;
