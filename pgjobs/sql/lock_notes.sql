-- Lock notes about jobs that wait for dependencies, before somebody looks whether they
-- still do: who leaves one from now on, or counts on one that lies there, is not served.
SELECT id FROM pgjobs_unsettled
WHERE kind = 'dependency'
ORDER BY id
LIMIT %(limit)s
FOR UPDATE SKIP LOCKED
