-- Operator's retry that keeps steps: see the function.
SELECT id, false FROM pgjobs_retry_keeping(%(ids)s::bigint[], %(until)s) AS id
