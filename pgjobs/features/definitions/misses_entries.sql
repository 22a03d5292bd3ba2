-- Whether something of a manifest is not in force: it is new, or was let go.
SELECT EXISTS (
    SELECT FROM pgjobs_manifestentry AS entry
    WHERE manifest_id = %(manifest)s AND CASE kind
        WHEN 'task' THEN NOT EXISTS (
            SELECT FROM pgjobs_taskdefinition AS task
            WHERE task.name = entry.name AND gone_at IS NULL
        )
        WHEN 'schedule' THEN NOT EXISTS (
            SELECT FROM pgjobs_schedule AS schedule
            WHERE schedule.name = entry.name AND NOT orphaned
        )
        ELSE NOT EXISTS (
            SELECT FROM pgjobs_subscription AS subscription
            WHERE subscription.task = entry.name AND subscription.event = entry.event
                AND inactive_at IS NULL
        )
    END
)
