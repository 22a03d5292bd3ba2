-- Admit jobs that wait, unless another worker does so now: see the function.
SELECT admitted, ended, has_more, is_blocked, met_undecided, after_queue, after_line,
    after_link
FROM pgjobs_admit(
    %(most)s::integer, %(seconds)s::float8, %(sweeps)s::boolean,
    %(after_queue)s::text, %(after_line)s::text, %(after_link)s::bigint,
    %(room)s::integer, %(queues)s::text[], %(excluded)s::text[]
)
