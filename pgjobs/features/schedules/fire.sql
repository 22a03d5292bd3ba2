-- Move schedules on to their next time and store the ticks that get a job.
-- A worker wins only if the schedule is as it was when the worker planned. The row
-- stays locked until the same transaction has inserted the jobs. A stored tick gets no
-- second job.
-- SKIP LOCKED: a schedule that is being edited is skipped for now.
-- The ids are compared with arrays, too: a plan made while there were few schedules would
-- otherwise walk over all of them.
WITH plan AS (
    SELECT * FROM unnest(
        %(ids)s::bigint[], %(expected)s::timestamptz[], %(next_runs)s::timestamptz[],
        %(skips)s::int[], %(errors)s::text[]
    ) AS plan (id, expected, next_run_at, skips, error)
),
won AS MATERIALIZED (
    SELECT schedule.id, plan.next_run_at, plan.skips, plan.error
    FROM plan
    JOIN pgjobs_schedule AS schedule
        ON schedule.id = plan.id
        -- An equation would let PostgreSQL walk the index of these times.
        AND schedule.next_run_at IS NOT DISTINCT FROM plan.expected
    WHERE schedule.id = ANY (%(ids)s::bigint[])
        AND NOT schedule.paused AND NOT schedule.orphaned
    ORDER BY schedule.id
    FOR UPDATE OF schedule SKIP LOCKED
),
moved AS (
    UPDATE pgjobs_schedule AS schedule
    SET next_run_at = won.next_run_at,
        skip_count = skip_count + won.skips,
        error = won.error
    FROM won
    WHERE schedule.id = won.id AND schedule.id = ANY (ARRAY(SELECT id FROM won))
    RETURNING schedule.id, schedule.task, schedule.args::text, schedule.kwargs::text,
        extract(epoch FROM schedule.jitter)::float8 AS jitter, schedule.name
),
tick AS (
    INSERT INTO pgjobs_tick (schedule_id, time)
    SELECT tick.schedule_id, tick.time
    FROM unnest(%(tick_schedules)s::bigint[], %(tick_times)s::timestamptz[])
        AS tick (schedule_id, time)
    JOIN moved ON moved.id = tick.schedule_id
    ORDER BY tick.time, tick.schedule_id
    ON CONFLICT (schedule_id, time) DO NOTHING
    RETURNING id, schedule_id, time
)
SELECT moved.id, tick.id, moved.task, moved.args, moved.kwargs, moved.jitter,
    moved.name
FROM moved LEFT JOIN tick ON tick.schedule_id = moved.id
ORDER BY tick.time, moved.id
