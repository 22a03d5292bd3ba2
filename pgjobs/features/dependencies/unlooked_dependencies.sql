-- How many jobs have waited long for a worker that looks for their dependency, of some.
SELECT count(*)
FROM (
    SELECT greatest(enqueued_at, run_after) AS since FROM pgjobs_job
    WHERE line = 'undecided' ORDER BY line LIMIT %(most)s
) AS job
WHERE since < clock_timestamp() - %(patience)s::interval
