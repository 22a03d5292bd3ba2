-- The jobs of a status that finished longer ago than an age, behind a position.
-- statement_timestamp: it stands still, so that the index ends the search.
status = %(status)s
AND finished_at IS NOT NULL
AND finished_at < statement_timestamp() - make_interval(secs => %(age)s)
AND finished_at >= %(after_time)s
AND (finished_at, id) > (%(after_time)s, %(after_id)s)
