-- Return the id of that job among these which a worker would claim first.
SELECT job.id
FROM pgjobs_job AS job LEFT JOIN pgjobs_queue ON name = queue_name
WHERE job.id = ANY (%(ids)s::bigint[]) AND status = 'READY'
    AND pgjobs_is_served(queue_name)
    AND CASE WHEN max_running IS NULL THEN true ELSE pgjobs_room(queue_name) > 0 END
ORDER BY priority DESC, turn LIMIT 1
