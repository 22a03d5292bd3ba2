-- Find events that tasks wait for and that left no note: see the function.
SELECT number, further, known
FROM pgjobs_find_awaited(%(seconds)s, %(limit)s, %(before)s)
