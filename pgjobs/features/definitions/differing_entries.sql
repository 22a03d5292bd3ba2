-- What living workers declare differently, with their versions, the newest first. The
-- entries are read only if there are several manifests.
WITH living AS MATERIALIZED (
    SELECT id, version, appeared_at, stored_at FROM pgjobs_manifest AS manifest
    WHERE EXISTS (
        SELECT FROM pgjobs_worker AS worker
        WHERE worker.manifest_id = manifest.id
            AND worker.lease_until > clock_timestamp()
    )
)
SELECT entry.kind, entry.name, entry.event,
    array_agg(living.version::text ORDER BY living.appeared_at DESC, living.stored_at DESC, living.id)
FROM pgjobs_manifestentry AS entry
JOIN living ON living.id = entry.manifest_id
WHERE (SELECT count(*) FROM living) > 1
GROUP BY entry.kind, entry.name, entry.event
HAVING count(DISTINCT entry.digest) > 1
ORDER BY entry.kind, entry.name, entry.event
LIMIT %(most)s
