-- Delete events published longer ago, a batch at a time, with their deliveries. Jobs that
-- delivered them stay as long as any other. Dead letters keep their event, and so does
-- whatever may yet run and ask for it.
WITH old AS MATERIALIZED (
    SELECT id FROM pgjobs_event AS event
    WHERE published_at < statement_timestamp() - make_interval(secs => %(age)s)
        AND NOT EXISTS (
            SELECT FROM pgjobs_delivery AS delivery
            JOIN pgjobs_job AS job ON job.id = delivery.job_id
            WHERE delivery.event_id = event.id
                AND job.status NOT IN ('SUCCESSFUL', 'CANCELLED')
            OFFSET 0  -- asked of each old event: no join with all jobs there are
        )
    ORDER BY published_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
),
pruned AS (
    DELETE FROM pgjobs_event WHERE id = ANY (ARRAY(SELECT id FROM old))
    RETURNING id
)
SELECT count(*) FROM pruned
