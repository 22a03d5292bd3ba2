-- Store which manifests tasks, schedules and subscriptions are as declared in.
UPDATE pgjobs_manifest AS manifest SET is_applied = lives
FROM (
    SELECT id,
        lives_until > clock_timestamp()
        OR (
            is_applied
            AND lives_until > clock_timestamp() - make_interval(secs => %(memory)s)
        ) AS lives
    FROM pgjobs_manifest
) AS judged
WHERE judged.id = manifest.id AND is_applied <> lives
RETURNING manifest.id
