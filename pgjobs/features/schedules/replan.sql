-- Give schedules another next run, unless they have fired or were changed meanwhile.
-- Workers of 0.9.0 count an interval from its origin on only, so the origin must not lie
-- behind the next run. It moves by whole periods: a tick that has fired keeps its time,
-- and so makes no second job when the clock is right again.
UPDATE pgjobs_schedule AS schedule
SET next_run_at = plan.next_run_at,
    origin_at = least(schedule.origin_at, plan.next_run_at)
FROM unnest(
    %(ids)s::bigint[], %(expected)s::timestamptz[], %(next_runs)s::timestamptz[]
) AS plan (id, expected, next_run_at)
WHERE schedule.id = plan.id AND schedule.id = ANY (%(ids)s::bigint[])
    AND schedule.next_run_at IS NOT DISTINCT FROM plan.expected
    AND NOT schedule.paused
RETURNING schedule.name
