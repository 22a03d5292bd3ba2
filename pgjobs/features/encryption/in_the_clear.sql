-- Count the newest jobs of encrypted tasks whose encrypted arguments stand in the clear.
SELECT count(*) FROM (
    SELECT task, args, kwargs, keys FROM pgjobs_job ORDER BY id DESC LIMIT %(most)s
) AS job
JOIN (
    SELECT name, options FROM pgjobs_taskdefinition
    UNION ALL
    SELECT jsonb_array_elements_text(options -> 'aliases'), options
    FROM pgjobs_taskdefinition
) AS definition ON definition.name = job.task
WHERE definition.options ? 'encrypted'
    AND (
        EXISTS (
            SELECT FROM jsonb_object_keys(
                CASE jsonb_typeof(job.kwargs) WHEN 'object' THEN job.kwargs ELSE '{}' END
            ) AS given (name)
            WHERE NOT coalesce(job.keys #> '{encrypted,names}' ? name, false) AND (
                definition.options -> 'encrypted' = 'true'
                OR definition.options -> 'encrypted' ? name
            )
        )
        OR (
            definition.options -> 'encrypted' = 'true' AND job.args <> '[]'
            AND (job.keys #> '{encrypted,rest}') IS NULL
        )
    )
