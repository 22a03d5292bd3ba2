-- The version of its task with which a job was enqueued.
SELECT coalesce((keys -> 'version')::integer, 1) FROM pgjobs_job WHERE id = %(id)s
