-- Return the rows that successes would leave, as JSON, for those who hear of their ends.
SELECT id, (
    to_jsonb(job) || jsonb_build_object(
        'status', 'SUCCESSFUL',
        'finished_at', clock_timestamp(),
        'return_value', (%(return_values)s::text[])[
            array_position(%(ids)s::bigint[], id)
        ]::jsonb,
        'reason', '',
        'worker_id', NULL,
        'worker_name', %(worker_name)s::text
    )
)::text
FROM pgjobs_job AS job WHERE id = ANY (%(ids)s::bigint[])
