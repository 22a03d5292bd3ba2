-- WITH TIES: see prune.sql.
WITH near AS MATERIALIZED (
    SELECT id, published_at FROM pgjobs_event
    WHERE published_at < statement_timestamp() - make_interval(secs => %(age)s)
        AND published_at >= %(after_time)s
        AND (published_at, id) > (%(after_time)s, %(after_id)s)
    ORDER BY published_at
    FETCH FIRST (%(limit)s) ROWS WITH TIES
),
seen AS MATERIALIZED (
    SELECT id, published_at FROM near ORDER BY published_at, id LIMIT %(limit)s
),
last AS (
    SELECT published_at, id FROM seen ORDER BY published_at DESC, id DESC LIMIT 1
),
