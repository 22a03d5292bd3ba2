-- In this order: PostgreSQL computes a list of results from first to last.
clock_timestamp() AS begun_at,
(
    SELECT extract(epoch FROM least(
        (
            SELECT run_after FROM pgjobs_job
            WHERE status = 'SCHEDULED'
                AND run_after > statement_timestamp() - %(overdue)s * interval '1 s'
            ORDER BY run_after LIMIT 1
        ),
        (SELECT min(opens_at) FROM pgjobs_rate)
    ) - clock_timestamp())::float8
) AS next_due,
(SELECT count(*) FROM taken) AS number,
clock_timestamp() AS ended_at
