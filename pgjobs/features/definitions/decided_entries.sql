-- For each name what the newest manifest says that declares it, of those that live. What
-- is applied lives on for `memory` seconds, until a worker that may judge leaves it out.
SELECT DISTINCT ON (kind, name, event) kind, name, event, value::text
FROM pgjobs_manifestentry AS entry
JOIN pgjobs_manifest AS manifest ON manifest.id = entry.manifest_id
WHERE lives_until > clock_timestamp()
    OR (
        is_applied
        AND lives_until > clock_timestamp() - make_interval(secs => %(memory)s)
    )
ORDER BY kind, name, event, appeared_at DESC, stored_at DESC, manifest.id
