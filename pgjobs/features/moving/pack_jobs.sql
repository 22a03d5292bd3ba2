-- Put jobs, with all that belongs to them, into parcels. The foreign keys delete what
-- belongs to a job with it, and a trigger its links.
WITH packed AS (
    INSERT INTO pgjobs_parcel (move_id, "table", content)
    SELECT %(move)s::uuid, found.name, found.content
    FROM (
        SELECT 'pgjobs_job', id, to_jsonb(row)
        FROM pgjobs_job AS row WHERE id = ANY (%(ids)s::bigint[])
        UNION ALL
        SELECT 'pgjobs_attempt', id, to_jsonb(row)
        FROM pgjobs_attempt AS row WHERE job_id = ANY (%(ids)s::bigint[])
        UNION ALL
        SELECT 'pgjobs_step', id, to_jsonb(row)
        FROM pgjobs_step AS row WHERE job_id = ANY (%(ids)s::bigint[])
        UNION ALL
        SELECT 'pgjobs_wait', id, to_jsonb(row)
        FROM pgjobs_wait AS row WHERE job_id = ANY (%(ids)s::bigint[])
        UNION ALL
        SELECT 'pgjobs_answer', id, to_jsonb(row)
        FROM pgjobs_answer AS row WHERE job_id = ANY (%(ids)s::bigint[])
        UNION ALL
        -- A copy of what their waits took, unless it moves itself: a task that runs again
        -- gets it again, and other jobs may have taken it. Nobody is to handle the copy.
        SELECT 'pgjobs_event', id,
            to_jsonb(row) || jsonb_build_object('handlers', greatest(handlers, 1))
        FROM pgjobs_event AS row
        WHERE id = ANY (ARRAY(
                SELECT event_id FROM pgjobs_wait WHERE job_id = ANY (%(ids)s::bigint[])
            ))
            AND (payload @> %(arguments)s::jsonb) IS NOT TRUE
        UNION ALL
        SELECT 'pgjobs_progress', job_id, to_jsonb(row)
        FROM pgjobs_progress AS row WHERE job_id = ANY (%(ids)s::bigint[])
        UNION ALL
        SELECT 'pgjobs_predecessor', id, to_jsonb(row)
        FROM pgjobs_predecessor AS row WHERE job_id = ANY (%(ids)s::bigint[])
        UNION ALL
        SELECT 'pgjobs_delivery', job_id, to_jsonb(row)
        FROM pgjobs_delivery AS row WHERE job_id = ANY (%(ids)s::bigint[])
        UNION ALL
        -- A copy: jobs that stay here may fail in the same way.
        SELECT 'pgjobs_errorgroup', id, to_jsonb(row)
        FROM pgjobs_errorgroup AS row
        WHERE id = ANY (ARRAY(
            SELECT error_group FROM pgjobs_job WHERE id = ANY (%(ids)s::bigint[])
        ))
    ) AS found (name, position, content)
    ORDER BY found.name, found.position
)
DELETE FROM pgjobs_job WHERE id = ANY (%(ids)s::bigint[])
RETURNING id
