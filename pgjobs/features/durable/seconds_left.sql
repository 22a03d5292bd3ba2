-- The seconds until the life of a running job is over, NULL without a deadline.
SELECT CASE
    WHEN jsonb_typeof(keys -> 'ends_at') = 'number'
        THEN (keys -> 'ends_at')::float8 - extract(epoch FROM clock_timestamp())
    WHEN jsonb_typeof(keys -> 'deadline') = 'number' THEN (keys -> 'deadline')::float8
END::float8
FROM pgjobs_job WHERE id = %(id)s
