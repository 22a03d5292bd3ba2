-- Return the first jobs of each line, as many as `numbers` says, and their places in the
-- line. Jobs of paused and unserved queues are skipped. Mostly there are none, and an
-- index has the jobs of a line in their order, whatever queues they are in. If there are,
-- the queues of the line are found by hopping along another index from name to name.
-- However many there are, none is left out.
CREATE OR REPLACE FUNCTION pgjobs_heads(lines text[], numbers integer[])
RETURNS TABLE (
    line text, id bigint, keys jsonb, priority smallint, turn bigint, place bigint
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    first record;
    served text[];
    mixed text[] := '{}';  -- lines with jobs that are skipped
    is_changed CONSTANT boolean := pgjobs_changes_flow();
BEGIN
    SELECT array_agg(wanted.line) AS lines, array_agg(id) AS ids,
        array_agg(keys) AS keys, array_agg(priority) AS priorities,
        array_agg(turn) AS turns, array_agg(place) AS places,
        array_agg(queue_name) AS queues
    INTO first
    FROM unnest(lines, numbers) AS wanted (line, number)
    CROSS JOIN LATERAL (
        SELECT *, row_number() OVER () AS place
        FROM (
            SELECT id, priority, turn, queue_name, CASE
                    WHEN is_changed THEN pgjobs_keys_now(task, keys) ELSE keys
                END AS keys
            FROM pgjobs_job AS job
            -- The second condition is the index's own.
            WHERE job.line = wanted.line AND job.line LIKE '% %'
            ORDER BY job.line, priority DESC, turn LIMIT number
        ) AS job
    ) AS head;
    served := pgjobs_served_of(first.queues);
    -- The index does not have the jobs of this line.
    IF 'arrived' = ANY (lines) OR NOT first.queues <@ served THEN
        mixed := ARRAY['arrived'] || ARRAY(
            SELECT line FROM unnest(first.lines, first.queues) AS head (line, queue_name)
            WHERE NOT queue_name = ANY (served)
        );
        RETURN QUERY
        WITH RECURSIVE hop (line, number, queue_name) AS (
            SELECT line, number, (
                SELECT queue_name FROM pgjobs_job AS job WHERE job.line = wanted.line
                ORDER BY queue_name LIMIT 1
            )
            FROM unnest(lines, numbers) AS wanted (line, number)
            WHERE line = ANY (mixed)
            UNION ALL
            SELECT line, number, (
                SELECT queue_name FROM pgjobs_job AS job
                WHERE job.line = hop.line AND job.queue_name > hop.queue_name
                ORDER BY queue_name LIMIT 1
            )
            FROM hop WHERE queue_name IS NOT NULL
        )
        SELECT line, id, keys, priority, turn, place
        FROM (
            SELECT hop.line, number, job.*, row_number() OVER (
                    PARTITION BY hop.line ORDER BY priority DESC, turn
                ) AS place
            FROM hop
            CROSS JOIN LATERAL (
                SELECT id, priority, turn, CASE
                        WHEN is_changed THEN pgjobs_keys_now(task, keys) ELSE keys
                    END AS keys
                FROM pgjobs_job AS job
                WHERE job.line = hop.line AND job.queue_name = hop.queue_name
                ORDER BY priority DESC, turn LIMIT number
            ) AS job
            -- The question is asked once, however many lines a queue is in. IS TRUE lets
            -- the planner hash the answers: it would compare each queue with all of them.
            WHERE (queue_name IN (
                SELECT unnest(pgjobs_served_of(ARRAY(SELECT queue_name FROM hop)))
            )) IS TRUE
        ) AS ranked
        WHERE place <= number;
    END IF;
    RETURN QUERY
    SELECT * FROM unnest(
        first.lines, first.ids, first.keys, first.priorities, first.turns, first.places
    ) AS head (line)
    WHERE NOT line = ANY (mixed);
END
$$;
