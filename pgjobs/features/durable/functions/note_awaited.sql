-- Keep an event for which some task waits, and leave a note of it. A worker that takes the
-- note looks for the jobs after this transaction has committed. Definitions that are
-- gone count as well: their jobs may still wait.
--
-- A transaction that is nothing but this statement lets the first jobs go on by itself,
-- and the look of the worker has time. Others may last, and would hold the jobs so long.
CREATE OR REPLACE FUNCTION pgjobs_note_awaited(
    event_id bigint, event_name text, aggregate_id text
) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET search_path FROM CURRENT
AS $$
DECLARE
    most CONSTANT integer := 10;  -- jobs that it lets go on
    patterns CONSTANT text[] := pgjobs_patterns(event_name);
    woken integer := 0;
BEGIN
    IF NOT EXISTS (
        SELECT FROM pgjobs_taskdefinition
        WHERE options ? 'waits_for'
            AND options -> 'waits_for' ?| patterns
    ) THEN
        RETURN;
    END IF;
    INSERT INTO pgjobs_awaitedevent (event_id, name, aggregate_id, cluster, transaction)
    VALUES (
        event_id, event_name, aggregate_id, pgjobs_cluster(),
        pg_current_xact_id()::text::bigint
    )
    ON CONFLICT DO NOTHING;
    INSERT INTO pgjobs_waitnote (event_id) VALUES (pgjobs_note_awaited.event_id);
    IF statement_timestamp() = transaction_timestamp()
        AND current_setting('transaction_isolation') = 'read committed'
        AND has_table_privilege('pgjobs_job', 'UPDATE')
    THEN
        woken := (
            SELECT done.woken
            FROM pgjobs_waits_for(event_name, aggregate_id, 0, most) AS waits
            CROSS JOIN LATERAL pgjobs_let_go_on(waits.jobs) AS done
            WHERE cardinality(waits.jobs) < most
        );
    END IF;
    PERFORM pg_notify('pgjobs_wake', CASE WHEN woken > 0 THEN 'soon' ELSE '' END);
END
$$;
