SELECT pgjobs_let_go(%(limit)s)
