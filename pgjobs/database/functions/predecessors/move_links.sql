-- Move these links, whose predecessor goes on as another job, to that one. The job may
-- have a link to it already, or several of these links: then one is enough. Its end is
-- noticed as that of any predecessor, also if it has come already.
CREATE OR REPLACE FUNCTION pgjobs_move_links(links bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    moved bigint[];
BEGIN
    WITH given AS MATERIALIZED (
        SELECT id, job_id, pgjobs_newest(predecessor_id) AS newest
        FROM pgjobs_predecessor WHERE id = ANY (links) AND is_open
    ),
    single AS MATERIALIZED (
        SELECT DISTINCT ON (job_id, newest) id, newest FROM given
        WHERE NOT EXISTS (
            SELECT FROM pgjobs_predecessor AS other
            WHERE other.job_id = given.job_id AND other.predecessor_id = newest
            OFFSET 0  -- asked for each link
        )
        ORDER BY job_id, newest, id
    ),
    changed AS (
        UPDATE pgjobs_predecessor AS link
        SET (predecessor_id, is_open) = (
            SELECT coalesce(max(newest), link.predecessor_id), count(*) = 1
            FROM single WHERE single.id = link.id
        )
        WHERE id = ANY (ARRAY(SELECT id FROM given))
    )
    SELECT array_agg(DISTINCT newest) INTO moved FROM given;
    PERFORM pgjobs_mark(moved);
    PERFORM pgjobs_leave_open(moved, NULL);
END
$$;
