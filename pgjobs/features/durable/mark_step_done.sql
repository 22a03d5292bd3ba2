-- Mark a step as done by hand: see the function.
SELECT pgjobs_mark_step(%(id)s, %(name)s, %(value)s::jsonb)
