-- Put schedules that no code declares into parcels, with their ticks. Those that code
-- declares are in the other database already.
WITH gone AS (
    DELETE FROM pgjobs_schedule AS schedule
    WHERE declared IS NULL AND kwargs @> %(arguments)s::jsonb
    RETURNING *
),
packed AS (
    INSERT INTO pgjobs_parcel (move_id, "table", content)
    SELECT %(move)s::uuid, 'pgjobs_schedule', to_jsonb(gone) FROM gone
    UNION ALL
    SELECT %(move)s::uuid, 'pgjobs_tick', to_jsonb(tick)
    FROM pgjobs_tick AS tick WHERE schedule_id IN (SELECT id FROM gone)
)
SELECT name FROM gone
