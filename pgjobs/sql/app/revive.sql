-- Put jobs back to WAITING that were cancelled because of these, which have just been
-- retried. A retry by SQL calls the same function.
SELECT pgjobs_revive(%(ids)s::bigint[])
