-- The seconds until a scheduled job may run, or a rate opens.
SELECT extract(epoch FROM least(
    (
        SELECT run_after FROM pgjobs_job WHERE status = 'SCHEDULED'
        ORDER BY run_after LIMIT 1
    ),
    (SELECT min(opens_at) FROM pgjobs_rate)
) - clock_timestamp())::float8
