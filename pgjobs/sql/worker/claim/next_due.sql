(
    SELECT extract(epoch FROM least(
        (
            SELECT run_after FROM pgjobs_job
            WHERE status = 'SCHEDULED' AND run_after > CASE
                WHEN %(is_complete)s THEN '-infinity'
                ELSE statement_timestamp() - interval '1 s'
            END
            ORDER BY run_after LIMIT 1
        ),
        (SELECT min(opens_at) FROM pgjobs_rate)
    ) - clock_timestamp())::float8
) AS next_due,
