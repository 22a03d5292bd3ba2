-- How many jobs of each of these groups are FAILED now, up to a number.
SELECT id, (
    SELECT count(*) FROM (
        SELECT FROM pgjobs_job WHERE error_group = known.id AND status = 'FAILED'
        LIMIT %(most)s
    ) AS failed
)
FROM unnest(%(ids)s::bigint[]) AS known (id)
