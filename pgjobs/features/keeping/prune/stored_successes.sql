-- The successes that were to be deleted, behind a position.
status = 'SUCCESSFUL'
AND keep = 'failed'
AND batch_id IS NULL
AND (keys ?| ARRAY['on_success', 'continued_as']) IS NOT TRUE
AND finished_at IS NOT NULL
AND finished_at >= %(after_time)s
AND (finished_at, id) > (%(after_time)s, %(after_id)s)
