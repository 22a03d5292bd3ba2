date_part('epoch', least(
    (
        SELECT run_after FROM pgjobs_job
        WHERE status = 'SCHEDULED' AND run_after > CASE
            WHEN %(is_complete)s THEN '-infinity'
            ELSE statement_timestamp() - interval '1 s'
        END
        ORDER BY run_after LIMIT 1
    ),
    (
        SELECT opens_at FROM pgjobs_rate WHERE opens_at IS NOT NULL
        ORDER BY opens_at LIMIT 1
    )
) - clock_timestamp()) AS next_due,
