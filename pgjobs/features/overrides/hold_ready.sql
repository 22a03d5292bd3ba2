-- Hold a part of the READY jobs that are paused, behind a place; say where to go on.
SELECT * FROM pgjobs_hold_ready(%(priority)s, %(turn)s, %(limit)s)
