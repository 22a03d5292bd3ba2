-- What is wrong with the fields of an answer.
SELECT unnest(names), unnest(faults)
FROM pgjobs_checked_object(%(schema)s::jsonb, %(value)s::jsonb)
