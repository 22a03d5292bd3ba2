-- Sequences that draw numbers which rows have already. Logical replication copies rows,
-- but no sequence.
-- Ids beyond the block are those of jobs that have moved here. Tokens are those of
-- running jobs, which do not move, and turns those of jobs that wait for a worker. A
-- sequence that was never used has no last value; one that the role may not read
-- counts as right.
WITH numbered (name, highest) AS (
    SELECT pg_get_serial_sequence('pgjobs_job', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_job WHERE id < %(beyond)s
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_event', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_event WHERE id < %(beyond)s
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_batch', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_batch WHERE id < %(beyond)s
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_schedule', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_schedule WHERE id < %(beyond)s
    )
    UNION ALL
    $highest_ids
    UNION ALL
    SELECT to_regclass('pgjobs_lease_token'), (
        SELECT max(lease_token) FROM pgjobs_job WHERE status = 'RUNNING'
    )
    UNION ALL
    SELECT to_regclass('pgjobs_turn'), (
        SELECT max(turn) FROM (
            SELECT turn FROM pgjobs_job
            WHERE id < %(beyond)s
            ORDER BY id DESC LIMIT 100
        ) AS latest
    )
)
SELECT name::text FROM numbered JOIN pg_sequence ON seqrelid = name::oid
WHERE has_sequence_privilege(seqrelid, 'USAGE, SELECT')
    AND highest > coalesce(pg_sequence_last_value(seqrelid), seqstart - 1)
ORDER BY name::text
