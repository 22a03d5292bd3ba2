-- Claim these jobs: those that a fetch has only locked, or the kit for tests. The
-- status is compared as in claim/pick.sql.
WITH free AS MATERIALIZED (
    SELECT id FROM pgjobs_job
    WHERE id = ANY (%(ids)s::bigint[]) AND status || '' = 'READY'
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pgjobs_job AS job
\ir claim/set.sql
    last_attempted_at = clock_timestamp()
WHERE job.id = ANY (ARRAY(SELECT id FROM free))
RETURNING
    \ir claim/columns.sql
