-- Let jobs wait again that were cancelled because of these, which have just been retried:
-- see the function (migration 0010), which a retry by SQL calls, too.
SELECT pgjobs_revive(%(ids)s::bigint[])
