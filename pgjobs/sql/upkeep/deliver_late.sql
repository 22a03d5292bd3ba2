-- Deliver events that had no subscriber when they were published, and have one now. A new
-- subscriber looks for them at once; workers look again and again, for
-- a publisher's transaction may have begun before and be committed only now.
SELECT pgjobs_deliver_late(%(grace)s, %(limit)s)
