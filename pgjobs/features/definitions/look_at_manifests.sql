-- Let the manifests of living workers live on, and say whether tasks, schedules and
-- subscriptions are out of date for those that live.
WITH alive AS MATERIALIZED (
    SELECT manifest_id, min(id) AS first_id FROM pgjobs_worker
    WHERE lease_until > clock_timestamp()
    GROUP BY manifest_id
),
renewed AS (
    UPDATE pgjobs_manifest
    SET lives_until = clock_timestamp() + make_interval(secs => %(lives)s)
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_manifest
        WHERE id IN (SELECT manifest_id FROM alive)
            AND lives_until < clock_timestamp() + make_interval(secs => 0.8 * %(lives)s)
        FOR NO KEY UPDATE SKIP LOCKED
    ))
)
SELECT
    -- Whether the worker that asks has stored what it declares.
    EXISTS (
        SELECT FROM pgjobs_worker AS worker
        JOIN pgjobs_manifest AS manifest ON manifest.id = worker.manifest_id
        WHERE worker.id = %(worker_id)s
    ) AS is_stored,
    -- Whether it may judge others: they had the time to show that they live. After an
    -- outage none may.
    EXISTS (
        SELECT FROM pgjobs_worker
        WHERE id = %(worker_id)s
            AND beating_since < clock_timestamp() - make_interval(secs => %(lives)s)
    ) AS may_judge,
    -- Workers whose declarations are unknown: those of 0.9.0, and those that could not say.
    EXISTS (SELECT FROM alive WHERE manifest_id IS NULL) AS has_strangers,
    -- So that one of many does what all could do.
    %(worker_id)s = (
        SELECT min(first_id) FROM alive WHERE manifest_id IS NOT NULL
    ) AS is_first,
    EXISTS (
        SELECT FROM pgjobs_manifest
        WHERE is_applied <> (
            lives_until > clock_timestamp() OR id IN (SELECT manifest_id FROM alive)
        )
    ) AS has_changed
