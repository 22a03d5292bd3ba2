-- Store what was encrypted anew of answers that nothing has taken meanwhile.
UPDATE pgjobs_answer AS answer SET value = new.value::jsonb
FROM jsonb_to_recordset(%(rows)s::jsonb) AS new (id bigint, before text, value text)
WHERE answer.id = new.id AND answer.id = ANY (%(ids)s::bigint[])
    AND answer.value = new.before::jsonb
