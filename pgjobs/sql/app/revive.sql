-- Make jobs WAITING again that were cancelled because of these retried jobs: see the
-- function.
SELECT pgjobs_revive(%(ids)s::bigint[])
