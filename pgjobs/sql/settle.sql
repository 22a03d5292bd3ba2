-- Let go what waits for these keys, as far as they allow. NULL: it must be tried again.
SELECT kind, key, pgjobs_settle(kind, key)
FROM unnest(%(kinds)s::text[], %(keys)s::text[]) AS unsettled (kind, key)
