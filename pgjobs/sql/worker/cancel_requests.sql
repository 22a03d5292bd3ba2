-- Those of a worker's jobs that were asked to stop. By their ids: the index of what runs
-- keeps the dead tuples of all that ran since the oldest snapshot.
SELECT lease_token FROM pgjobs_job
WHERE id = ANY (%(held)s::bigint[])
    AND worker_id = %(worker_id)s
    AND cancel_requested_at IS NOT NULL
