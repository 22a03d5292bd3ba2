-- Let jobs wait again that were cancelled because of these, which have just been retried:
-- see database/functions/predecessors/revive.sql, which a retry by SQL calls, too.
SELECT pgjobs_revive(%(ids)s::bigint[])
