-- Find out which of the jobs meet a gate that is closed: a paused row of pgjobs_queue
-- whose name is "gate:" and the name of the gate.
--
-- `freed_keys` has the gates through which jobs of their lines pass: others may follow.
CREATE OR REPLACE FUNCTION pgjobs_meet_gates(
    ids bigint[], INOUT obstacles jsonb, OUT freed_keys jsonb[]
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT coalesce(
            jsonb_object_agg(
                id, jsonb_build_object('waiting_for', 'gate', 'line', own_line)
            ) FILTER (WHERE is_closed),
            '{}'
        ),
        coalesce(
            array_agg(DISTINCT jsonb_build_object('gate', gate)) FILTER (
                WHERE line = own_line AND NOT is_closed
            ),
            '{}'
        )
    INTO obstacles, freed_keys
    FROM (
        SELECT id, line, keys ->> 'gate' AS gate,
            pgjobs_line('gate', keys ->> 'gate') AS own_line
        FROM pgjobs_job
        WHERE id = ANY (ids) AND keys ? 'gate' AND NOT obstacles ? id::text
    ) AS job
    CROSS JOIN LATERAL (
        SELECT EXISTS (
            SELECT FROM pgjobs_queue
            WHERE name = 'gate:' || gate AND paused_at IS NOT NULL
            OFFSET 0
        )
        OFFSET 0  -- asked once, although it is used twice
    ) AS state (is_closed);
END
$$;
