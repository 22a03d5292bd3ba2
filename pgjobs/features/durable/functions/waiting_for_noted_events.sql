-- Return the jobs that wait for the events of these notes, a batch for each. A note
-- whose event fits more waits goes on behind them, and the others go.
CREATE OR REPLACE FUNCTION pgjobs_waiting_for_noted_events(
    notes bigint[], most integer, INOUT has_more boolean, OUT jobs bigint[]
) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    note record;
    batch bigint[];
    last bigint;
BEGIN
    jobs := '{}';
    FOR note IN
        SELECT waitnote.id, waitnote.after, awaited.name, awaited.aggregate_id
        FROM pgjobs_waitnote AS waitnote
        LEFT JOIN pgjobs_awaitedevent AS awaited USING (event_id)
        WHERE waitnote.id = ANY (notes) AND waitnote.event_id IS NOT NULL
    LOOP
        SELECT waits.jobs, waits.last INTO batch, last
        FROM pgjobs_waits_for(note.name, note.aggregate_id, note.after, most) AS waits;
        jobs := jobs || coalesce(batch, '{}');
        IF cardinality(batch) = most THEN
            UPDATE pgjobs_waitnote SET after = last WHERE id = note.id;
            has_more := true;
        ELSE
            DELETE FROM pgjobs_waitnote WHERE id = note.id;
        END IF;
    END LOOP;
END
$$;
