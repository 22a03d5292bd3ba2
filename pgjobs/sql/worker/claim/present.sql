-- A job is held if the transaction that claimed or locked it last, "xmax", had not ended
-- when the statement began. "xmax" has only 32 bits, so the age gives the full number.
-- (Where several transactions share a lock, "xmax" numbers their group instead. It
-- looks old, or far in the future, and such a job is not taken for held.)
present AS MATERIALIZED (
    SELECT snapshot, age(pg_snapshot_xmin(snapshot)::xid) AS oldest,
        pg_snapshot_xmax(snapshot)::text::bigint
            + age(pg_snapshot_xmax(snapshot)::xid) AS number_of_age_0
    FROM pg_current_snapshot() AS snapshot
),
