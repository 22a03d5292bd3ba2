-- Store what was encrypted anew of steps, unless they have changed meanwhile.
UPDATE pgjobs_step AS step SET return_value = new.value::jsonb
FROM jsonb_to_recordset(%(rows)s::jsonb) AS new (id bigint, before text, value text)
WHERE step.id = new.id AND step.id = ANY (%(ids)s::bigint[])
    AND step.return_value = new.before::jsonb
