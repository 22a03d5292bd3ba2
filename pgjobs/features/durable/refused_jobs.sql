-- Those of these jobs for which a job cannot wait: they wait for it, by whatever is between
-- them. The search ends after some thousand jobs, and waits end in time.
SELECT DISTINCT id FROM unnest(%(ids)s::bigint[]) AS given (id)
WHERE pgjobs_newest(id) = ANY (
    (SELECT pgjobs_circle_with(%(job_id)s, %(ids)s::bigint[], %(limit)s))::bigint[]
)
ORDER BY id
