-- Count the jobs that are old enough to be pruned and to which a table of the project refers.
SELECT count(DISTINCT job.id)
FROM /*table*/ AS referring
JOIN pgjobs_job AS job ON job.id = referring./*column*/
JOIN unnest(%(statuses)s::text[], %(ages)s::float8[]) AS given (status, age)
    ON given.status = job.status
WHERE job.finished_at < clock_timestamp() - make_interval(secs => given.age)
