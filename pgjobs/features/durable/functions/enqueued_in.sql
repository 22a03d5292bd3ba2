-- Return what the row of a job keeps of the statement that inserts it, so that it is
-- known later which events this statement could see. It is STABLE, because it must not
-- take a newer snapshot.
CREATE OR REPLACE FUNCTION pgjobs_enqueued_in() RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN jsonb_build_object('enqueued_in', jsonb_build_object(
        'snapshot', pg_current_snapshot()::text,
        'transaction', pg_current_xact_id()::text::bigint,
        'cluster', pgjobs_cluster()
    ));
END
$$;
