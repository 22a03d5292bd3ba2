-- Give schedules another next run, unless they have fired or were changed meanwhile.
UPDATE pgjobs_schedule AS schedule
SET next_run_at = plan.next_run_at,
    origin_at = least(schedule.origin_at, clock_timestamp())
FROM unnest(
    %(ids)s::bigint[], %(expected)s::timestamptz[], %(next_runs)s::timestamptz[]
) AS plan (id, expected, next_run_at)
WHERE schedule.id = plan.id AND schedule.id = ANY (%(ids)s::bigint[])
    AND schedule.next_run_at IS NOT DISTINCT FROM plan.expected
    AND NOT schedule.paused
RETURNING schedule.name
