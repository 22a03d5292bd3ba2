-- The conditions of a claim by queue for the jobs of one class.
free > 0 AND room > 0 AND status = 'READY' AND queue_name = class.queue_name
AND (priority, -turn) > (last_priority, -last_turn)
AND priority >= last_priority
AND (
    NOT %(skips_expired)s OR attempts > 0
    OR expires_at > clock_timestamp() IS NOT FALSE
)
