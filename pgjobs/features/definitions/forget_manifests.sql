-- Delete the manifests that no worker had for an hour. If one of these versions returns,
-- it counts as new.
WITH gone AS MATERIALIZED (
    SELECT id FROM pgjobs_manifest
    WHERE NOT is_applied
        AND lives_until < clock_timestamp() - make_interval(secs => %(remembered)s)
        AND NOT EXISTS (
            SELECT FROM pgjobs_worker AS worker
            WHERE worker.manifest_id = pgjobs_manifest.id
                AND worker.lease_until > clock_timestamp()
        )
),
entries AS (
    DELETE FROM pgjobs_manifestentry WHERE manifest_id IN (SELECT id FROM gone)
),
manifests AS (
    DELETE FROM pgjobs_manifest WHERE id IN (SELECT id FROM gone) RETURNING id
)
SELECT id FROM manifests
