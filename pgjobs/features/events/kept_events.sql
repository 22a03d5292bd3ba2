-- How many of a part of the old events, behind a position, are kept for jobs that deliver
-- them: see prune_events.sql. Say whether more may follow, and behind which event.
\ir prune/old_events.sql
kept AS (
    SELECT count(*) AS number FROM seen AS event WHERE
    \ir prune/has_deliveries.sql
)
SELECT (SELECT number FROM kept), looked.number = %(limit)s, last.published_at, last.id
FROM (SELECT count(*) AS number FROM seen) AS looked
LEFT JOIN last ON true
