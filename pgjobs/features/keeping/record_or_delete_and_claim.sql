-- Record or delete successes, and claim the first jobs, as record_and_claim.sql does.
WITH stored AS MATERIALIZED (
    SELECT tokens AS lease_tokens, has_keys, clock_timestamp() AS begun_at
    FROM pgjobs_record_or_delete(
        %(worker_id)s, %(worker_name)s, %(ids)s::bigint[], %(lease_tokens)s::bigint[],
        %(return_values)s::text[], %(deletable)s::bigint[]
    ) AS recorded (tokens, has_keys)
),
\ir ../../sql/worker/claim/in_order.sql
