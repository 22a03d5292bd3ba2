-- Return a batch of the jobs behind an id that have the mark, or whose task is encrypted
-- now. Who stores them locks them, too, and leaves those that others hold to the next run.
SELECT id, task, status, args::text, kwargs::text, return_value::text,
    (keys -> 'encrypted')::text
FROM pgjobs_job
WHERE id > %(after)s AND id <= %(last)s
    AND (keys ? 'encrypted' OR task = ANY (%(tasks)s::text[]))
ORDER BY id
LIMIT %(limit)s
