-- Why an old job is kept, NULL if nothing needs it: see management/prunejobs.py.
-- OFFSET 0: asked of each old job, so that the planner joins no whole table.
CASE
    WHEN /*referred*/ false THEN 'table'  -- another table: see queue/references.py
    -- An admission has still to see that it ended.
    WHEN job.line IS NOT NULL THEN 'admission'
    -- The last run of a schedule stays: people see there how it ended.
    WHEN EXISTS (
        SELECT FROM pgjobs_schedule
        WHERE last_job_id IS NOT NULL AND last_job_id = job.id
        OFFSET 0
    ) THEN 'schedule'
    -- Another one could be enqueued before the period is over.
    WHEN job.unique_until IS NOT NULL AND job.unique_until >= clock_timestamp()
        AND pgjobs_holds_key(
            job.unique_for, job.unique_until, job.status, job.attempts, job.finished_at
        ) THEN 'unique'
    -- What depends on it would have it done again.
    WHEN job.dependencies IS NOT NULL AND EXISTS (
        SELECT FROM pgjobs_prerequisite
        WHERE job_id = job.id AND needed_until > clock_timestamp()
    ) THEN 'dependency'
    -- Another job has still to learn how this one has ended.
    WHEN NOT (SELECT all_seen FROM named)
        OR job.id = ANY ((SELECT ids FROM named)::bigint[])
        OR EXISTS (
            SELECT FROM pgjobs_predecessor WHERE predecessor_id = job.id AND is_open
            OFFSET 0
        ) THEN 'successor'
    -- Another job will get its result as an argument.
    WHEN job.batch_id = ANY ((SELECT batches FROM named)::bigint[])
        OR EXISTS (
            SELECT FROM pgjobs_predecessor AS link
            WHERE link.gives_result AND link.predecessor_id = job.id
                AND EXISTS (
                    SELECT FROM pgjobs_job AS other
                    WHERE other.id = link.job_id AND other.finished_at IS NULL
                    OFFSET 0
                )
            OFFSET 0
        )
        OR job.batch_id IS NOT NULL AND EXISTS (
            SELECT FROM pgjobs_predecessor AS link
            WHERE link.gives_result AND link.batch_id = job.batch_id
                AND EXISTS (
                    SELECT FROM pgjobs_job AS other
                    WHERE other.id = link.job_id AND other.finished_at IS NULL
                    OFFSET 0
                )
            OFFSET 0
        ) THEN 'successor'
    -- A step of another job has enqueued it, which may yet ask for its end.
    WHEN job.meta ->> 'parent_id' ~ '^[0-9]{1,18}$' AND EXISTS (
        SELECT FROM pgjobs_job AS parent
        WHERE parent.id = (job.meta ->> 'parent_id')::bigint
            AND parent.finished_at IS NULL
            AND EXISTS (SELECT FROM pgjobs_step WHERE job_id = parent.id OFFSET 0)
        OFFSET 0
    ) THEN 'parent'
    -- What the rest of its batch would say must not be better than what all said.
    WHEN job.batch_id IS NOT NULL AND job.status <> 'SUCCESSFUL' AND EXISTS (
        SELECT FROM pgjobs_job AS other
        WHERE other.batch_id = job.batch_id
            AND (
                other.status = 'SUCCESSFUL'
                OR other.status = 'READY'
                OR other.status = 'SCHEDULED'
                OR other.status = 'WAITING'
                OR other.status = 'RUNNING'
                OR other.status = 'CANCELLED' AND job.status = 'FAILED'
            )
        OFFSET 0
    ) THEN 'batch'
    -- The retry of the job because of which it was cancelled would revive it.
    WHEN job.status = 'CANCELLED' AND job.blocked_by_id IS NOT NULL AND EXISTS (
        SELECT FROM pgjobs_job AS culprit
        WHERE culprit.id = job.blocked_by_id
        OFFSET 0
    ) THEN 'retry'
END
