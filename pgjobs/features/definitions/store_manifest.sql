-- Store the manifest of a process, or let the one that is there live on. Manifests of
-- one version (processes with modules of their own) appeared together.
INSERT INTO pgjobs_manifest AS manifest
    (id, version, digest, appeared_at, stored_at, lives_until, is_applied)
VALUES (
    %(id)s, %(version)s::text, %(digest)s,
    coalesce(
        (
            SELECT min(appeared_at) FROM pgjobs_manifest
            WHERE version = %(version)s::text AND lives_until
                > clock_timestamp() - make_interval(secs => %(remembered)s)
        ),
        clock_timestamp()
    ),
    clock_timestamp(),
    clock_timestamp() + make_interval(secs => %(lives)s),
    false
)
ON CONFLICT (id) DO UPDATE SET
    appeared_at = CASE
        WHEN manifest.lives_until
                < clock_timestamp() - make_interval(secs => %(remembered)s)
            THEN excluded.appeared_at
        ELSE manifest.appeared_at
    END,
    stored_at = CASE
        WHEN manifest.lives_until
                < clock_timestamp() - make_interval(secs => %(remembered)s)
            THEN excluded.stored_at
        ELSE manifest.stored_at
    END,
    lives_until = greatest(manifest.lives_until, excluded.lives_until)
RETURNING
    -- As they were when the statement began.
    NOT EXISTS (
        SELECT FROM pgjobs_manifestentry WHERE manifest_id = manifest.id
    ) AS is_empty,
    EXISTS (
        SELECT FROM pgjobs_manifest AS before
        WHERE before.id = manifest.id AND before.lives_until > clock_timestamp()
    ) AS has_lived
