-- Count the newest jobs of encrypted tasks whose encrypted arguments stand in the clear.
SELECT count(*) FROM (
    SELECT task, args, kwargs, keys FROM pgjobs_job ORDER BY id DESC LIMIT %(most)s
) AS job
JOIN pgjobs_taskdefinition AS definition ON definition.name = job.task
WHERE definition.options ? 'encrypted'
    AND CASE
        WHEN definition.options -> 'encrypted' = 'true'
            THEN job.kwargs <> '{}' OR job.args <> '[]'
        ELSE definition.options -> 'encrypted' ?| ARRAY(
            SELECT jsonb_object_keys(
                CASE jsonb_typeof(job.kwargs) WHEN 'object' THEN job.kwargs ELSE '{}' END
            )
        )
    END
    AND coalesce(job.keys #> '{encrypted,names}', '[]') = '[]'
    AND (job.keys #> '{encrypted,rest}') IS NULL
