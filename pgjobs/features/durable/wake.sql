-- Make jobs READY that may find what they wait for: see the function.
SELECT woken, has_more, are_keyed FROM pgjobs_wake(%(limit)s)
