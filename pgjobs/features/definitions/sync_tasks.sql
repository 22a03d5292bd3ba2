-- Store the tasks that code declares, and mark the others as gone if `others_go`.
-- Rows that are up to date are not written. One process does so at a time.
WITH declared AS MATERIALIZED (
    SELECT name, origin, description, parameters::jsonb, options::jsonb
    FROM unnest(
        %(name)s::text[], %(origin)s::text[], %(description)s::text[],
        %(parameters)s::text[], %(options)s::text[]
    ) AS task (name, origin, description, parameters, options)
),
gone AS (
    UPDATE pgjobs_taskdefinition SET gone_at = statement_timestamp()
    WHERE %(others_go)s
        AND gone_at IS NULL AND name NOT IN (SELECT name FROM declared)
    RETURNING name
),
stored AS (
    INSERT INTO pgjobs_taskdefinition AS task
        (name, origin, description, parameters, options, synced_at)
    SELECT *, statement_timestamp() FROM declared
    WHERE NOT EXISTS (
        SELECT FROM pgjobs_taskdefinition AS same
        WHERE same.gone_at IS NULL
            AND (same.name, same.origin, same.description, same.parameters, same.options)
                = (
                    declared.name, declared.origin, declared.description,
                    declared.parameters, declared.options
                )
    )
    ON CONFLICT (name) DO UPDATE
        SET origin = excluded.origin, description = excluded.description,
            parameters = excluded.parameters, options = excluded.options,
            synced_at = excluded.synced_at, gone_at = NULL
    RETURNING name
)
SELECT name, 'gone' FROM gone
UNION ALL
SELECT name,
    CASE
        WHEN EXISTS (
            -- As it was when the statement began.
            SELECT FROM pgjobs_taskdefinition AS before
            WHERE before.name = stored.name AND before.gone_at IS NULL
        )
        THEN 'changed' ELSE 'new'
    END
FROM stored
