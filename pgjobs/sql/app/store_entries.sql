-- Store what a manifest declares.
INSERT INTO pgjobs_manifestentry (manifest_id, kind, name, event, digest, value)
SELECT %(manifest)s, kind, name, event, digest, value::jsonb
FROM unnest(
    %(kind)s::text[], %(name)s::text[], %(event)s::text[], %(digest)s::text[],
    %(value)s::text[]
) AS entry (kind, name, event, digest, value)
RETURNING id
