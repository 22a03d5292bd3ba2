-- What a schedule's error may quote.
SELECT task, args::text, kwargs::text FROM pgjobs_schedule WHERE id = %(id)s
