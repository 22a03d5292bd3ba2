-- Deliver events that nobody had subscribed to when they were published, and somebody
-- has since. Who subscribes looks for them at once; workers look again and again, for
-- a publisher's transaction may have begun before and be committed only now.
SELECT pgjobs_deliver_late(%(grace)s, %(limit)s)
