-- Whether a row of pgjobs_worker says that it claims from the queue `queue_name`.
CASE
    WHEN queues <> '' THEN queue_name = ANY (string_to_array(queues, ','))
    ELSE NOT queue_name = ANY (string_to_array(excluded, ','))
END
