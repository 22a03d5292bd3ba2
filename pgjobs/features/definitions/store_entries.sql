-- Store what a manifest declares.
INSERT INTO pgjobs_manifestentry (id, manifest_id, kind, name, event, digest, value)
SELECT id, %(manifest)s, kind, name, event, digest, value::jsonb
FROM unnest(
    %(id)s::bigint[], %(kind)s::text[], %(name)s::text[], %(event)s::text[],
    %(digest)s::text[], %(value)s::text[]
) AS entry (id, kind, name, event, digest, value)
RETURNING id
