-- Return whether a worker that is alive would claim from the queue.
CREATE OR REPLACE FUNCTION pgjobs_is_served(queue text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pgjobs_worker
        WHERE lease_until > statement_timestamp() AND wanted = ''
            AND CASE
                WHEN queues <> '' THEN queue = ANY (string_to_array(queues, ','))
                ELSE excluded = ''
                    OR NOT queue = ANY (string_to_array(excluded, ','))
            END
    ) AND NOT EXISTS (
        SELECT FROM pgjobs_queue WHERE name = queue AND paused_at IS NOT NULL
    );
END
$$;
