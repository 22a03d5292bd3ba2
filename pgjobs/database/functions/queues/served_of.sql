-- Return those of these queues from which a worker that is alive would claim, each once:
-- see pgjobs_is_served. With thousands of queues it makes a difference that this asks
-- only once whether a worker serves all of them.
CREATE OR REPLACE FUNCTION pgjobs_served_of(names text[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT name FROM (SELECT DISTINCT unnest(names) OFFSET 0) AS queue (name)
        WHERE CASE
                WHEN EXISTS (
                    SELECT FROM pgjobs_worker
                    WHERE lease_until > statement_timestamp()
                        AND wanted = '' AND queues = '' AND excluded = ''
                )
                    THEN NOT EXISTS (
                        SELECT FROM pgjobs_queue
                        WHERE pgjobs_queue.name = queue.name AND paused_at IS NOT NULL
                        OFFSET 0
                    )
                ELSE pgjobs_is_served(name)
            END
    );
END
$$;
