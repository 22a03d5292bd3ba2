-- Let a worker record successes, and admit jobs that wait, unless another one does: see
-- the function.
SELECT recorded, admitted, ended, has_more, is_blocked, met_undecided, after_queue,
    after_line, after_link, to_json(claimed)
FROM pgjobs_admit(
    %(worker_id)s::bigint, %(ids)s::bigint[], %(lease_tokens)s::bigint[],
    %(return_values)s::text[],
    %(most)s::integer, %(seconds)s::float8, %(sweeps)s::boolean,
    %(after_queue)s::text, %(after_line)s::text, %(after_link)s::bigint,
    %(room)s::integer, %(queues)s::text[], %(excluded)s::text[], %(claims)s::boolean
)
