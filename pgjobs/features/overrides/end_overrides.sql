SELECT pgjobs_end_overrides(%(limit)s)
