-- Store what was encrypted anew of locked jobs. Marks are of jobs that had none.
UPDATE pgjobs_job AS job
SET args = new.args::jsonb, kwargs = new.kwargs::jsonb,
    return_value = new.return_value::jsonb,
    -- What was masked stays so.
    keys = coalesce(job.keys, '{}') || new.marks::jsonb || jsonb_build_object(
        'masked', (
            SELECT coalesce(jsonb_agg(DISTINCT name), '[]')
            FROM jsonb_array_elements(
                coalesce(job.keys -> 'masked', '[]') || (new.marks::jsonb -> 'masked')
            ) AS each (name)
        )
    )
FROM jsonb_to_recordset(%(rows)s::jsonb) AS new (
    id bigint, args text, kwargs text, return_value text, marks text
)
WHERE job.id = new.id AND job.id = ANY (%(ids)s::bigint[])
