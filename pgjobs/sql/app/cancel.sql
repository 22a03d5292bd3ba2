-- Cancel queued jobs, and ask running ones to stop: see the function.
SELECT id, is_finished FROM pgjobs_cancel_jobs(%(ids)s::bigint[], %(reason)s)
