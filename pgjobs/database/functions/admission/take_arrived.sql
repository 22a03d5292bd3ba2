-- Return the jobs to decide about, and the keys that may have room. Jobs of paused and
-- unserved queues leave for a line of their queue, where they are in no one's way. The
-- sweep brings them back when their queue is served.
CREATE OR REPLACE FUNCTION pgjobs_take_arrived(
    most integer, INOUT after_queue text, OUT ids bigint[], OUT freed_keys jsonb[],
    OUT ended bigint[], OUT has_linked boolean, OUT number_unserved integer
) LANGUAGE plpgsql AS $$
DECLARE
    followers bigint[];
    most_queues CONSTANT integer := 100;
    queues text[] := ARRAY(
        WITH RECURSIVE queue (name, number) AS (
            (
                SELECT queue_name, 1 FROM pgjobs_job
                WHERE line = 'arrived' AND queue_name > after_queue
                ORDER BY queue_name LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT queue_name FROM pgjobs_job
                WHERE line = 'arrived' AND queue_name > queue.name
                ORDER BY queue_name LIMIT 1
            ), number + 1
            FROM queue WHERE queue.name IS NOT NULL AND number < most_queues
        )
        SELECT name FROM queue WHERE name IS NOT NULL
    );
    served text[] := pgjobs_served_of(queues);
BEGIN
    ids := ARRAY(
        SELECT id FROM pgjobs_job WHERE line = 'unlinked'
        LIMIT most FOR NO KEY UPDATE SKIP LOCKED
    );
    has_linked := ids <> '{}';
    ids := ids || ARRAY(
        SELECT head.id
        FROM unnest(served) AS queue (name)
        CROSS JOIN LATERAL (
            SELECT id, priority, turn, row_number() OVER () AS place
            FROM (
                SELECT id, priority, turn FROM pgjobs_job
                WHERE line = 'arrived' AND queue_name = queue.name
                ORDER BY priority DESC, turn LIMIT most
            ) AS first
        ) AS head
        -- Each queue has its share: thousands that arrive in one delay no other queue.
        ORDER BY place > most / greatest(cardinality(served), 1), priority DESC, turn LIMIT most
    );
    number_unserved := pgjobs_set_aside(queues, served, most);
    after_queue := CASE
        WHEN cardinality(queues) = most_queues THEN queues[most_queues] ELSE ''
    END;
    SELECT * INTO followers, ended FROM pgjobs_link_arrived(ids, most);
    -- A job that is due later needed only its links, and so did one that waits for
    -- something else. (The status is compared as in sql/worker/claim/pick.sql.)
    UPDATE pgjobs_job SET line = CASE status WHEN 'WAITING' THEN 'unknown' END
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (ids)
            AND (status || '' = 'SCHEDULED' OR NOT pgjobs_knows(waiting_for))
        FOR NO KEY UPDATE SKIP LOCKED
    ));
    -- Others may have waited longer for the same keys. (In an ordered lock the ids
    -- decide.)
    freed_keys := ARRAY(
        SELECT keys FROM pgjobs_job
        WHERE id = ANY (ids) AND (
            keys ?| ARRAY['limit_key', 'rate_key'] OR keys ->> 'is_ordered' = 'false'
        )
    );
    ids := ids || followers;
END
$$;
