-- Whether a job delivers the event that has failed or not ended.
EXISTS (
    SELECT FROM pgjobs_delivery AS delivery
    WHERE delivery.event_id = event.id AND EXISTS (
        SELECT FROM pgjobs_job
        WHERE id = delivery.job_id AND status NOT IN ('SUCCESSFUL', 'CANCELLED')
        OFFSET 0
    )
    OFFSET 0  -- asked for each old event: no join with all jobs
)
