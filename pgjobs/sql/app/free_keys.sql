-- Free those of these unique keys that jobs held for a period which is over.
SELECT pgjobs_free_keys(%(unique_keys)s::text[])
