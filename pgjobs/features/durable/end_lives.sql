-- Fail a batch of the jobs whose deadline is over: see the function.
SELECT pgjobs_end_lives(%(limit)s, %(only)s::bigint[], %(skipped)s::bigint[])
