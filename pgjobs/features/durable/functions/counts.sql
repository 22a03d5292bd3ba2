-- Return whether the event of a transaction counts for a job that was enqueued in the
-- same cluster: unless the statement that enqueued it could see the event. An event of
-- the same transaction counts. (A snapshot may call its own transaction visible.)
CREATE OR REPLACE FUNCTION pgjobs_counts(enqueued_in jsonb, transaction bigint)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT transaction = (enqueued_in -> 'transaction')::bigint
        OR NOT pg_visible_in_snapshot(
            transaction::text::xid8, (enqueued_in ->> 'snapshot')::pg_snapshot
        )
$$;
