-- Note of new pauses the transaction in which a worker first sees them: each INSERT that
-- looked before and did not see them is in an older one. (The one that paused is too old:
-- others begin before it commits.) One that is changed right now is noted next time.
UPDATE pgjobs_override SET changed_in = (pg_current_xact_id()::text)::bigint
WHERE id = ANY (ARRAY(
    SELECT id FROM pgjobs_override
    WHERE paused_at IS NOT NULL AND NOT is_held AND changed_in = 0
    FOR NO KEY UPDATE SKIP LOCKED
))
RETURNING id
