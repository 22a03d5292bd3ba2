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
    SELECT pg_get_serial_sequence('pgjobs_attempt', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_attempt
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_auditentry', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_auditentry
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_codeversion', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_codeversion
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_figure', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_figure
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_note', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_note
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_predecessor', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_predecessor
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_prerequisite', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_prerequisite
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_queue', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_queue
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_step', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_step
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_subscription', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_subscription
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_taskdefinition', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_taskdefinition
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_tick', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_tick
    )
    UNION ALL
    SELECT pg_get_serial_sequence('pgjobs_worker', 'id')::regclass, (
        SELECT max(id) FROM pgjobs_worker
    )
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
