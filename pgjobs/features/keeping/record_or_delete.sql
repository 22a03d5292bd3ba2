-- Record jobs that succeeded, and delete in place of that whose rows nothing needs.
SELECT token, has_keys
FROM pgjobs_record_or_delete(
    %(worker_id)s, %(worker_name)s, %(ids)s::bigint[], %(lease_tokens)s::bigint[],
    %(return_values)s::text[], %(deletable)s::bigint[]
) AS recorded (tokens, has_keys)
CROSS JOIN LATERAL unnest(tokens) AS token
