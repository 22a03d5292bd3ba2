-- Deliver events that had no subscriber when they were published and have one now.
-- A new subscriber looks for them at once. Workers look again and again, because the
-- transaction of a publisher may have begun before and be committed only now.
SELECT pgjobs_deliver_late(%(grace)s, %(limit)s)
