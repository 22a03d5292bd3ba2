-- Let jobs go on as others, with new arguments: see the function.
SELECT recorded.lease_token, recorded.status
FROM (
    SELECT * FROM jsonb_to_recordset(%(outcomes)s::jsonb) AS outcome (
        id bigint, lease_token bigint, reason text, stores jsonb
    )
    ORDER BY id
) AS outcome
CROSS JOIN LATERAL pgjobs_continue_as(
    outcome.id, outcome.lease_token, %(worker_id)s, %(worker_name)s, outcome.stores
) AS recorded
