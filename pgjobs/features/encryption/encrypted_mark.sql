-- Return the mark of an encrypted job, or of that as which it goes on.
SELECT (keys -> 'encrypted')::text FROM pgjobs_job WHERE id = pgjobs_newest(%(id)s)
