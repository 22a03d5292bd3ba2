EXISTS (SELECT FROM pgjobs_queue WHERE name = queue_name AND paused_at IS NOT NULL)
