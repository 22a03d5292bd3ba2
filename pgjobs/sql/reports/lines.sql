-- For some locks, limits and rates: the first job that waits, and how many wait.
-- The lines are found by hopping along the index, and so are their kinds.
WITH RECURSIVE kind (name) AS (
    (
        SELECT split_part(line, ' ', 1) FROM pgjobs_job
        WHERE line LIKE '%% %%' ORDER BY line LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT split_part(line, ' ', 1) FROM pgjobs_job
        WHERE line LIKE '%% %%' AND line > kind.name || '!' ORDER BY line LIMIT 1
    )
    FROM kind WHERE kind.name IS NOT NULL
)
SELECT waiting.id, waiting.number
FROM kind
CROSS JOIN LATERAL (
    WITH RECURSIVE hop (line, number) AS (
        (
            SELECT line, 1 FROM pgjobs_job
            WHERE line > kind.name || ' ' AND line < kind.name || '!'
            ORDER BY line LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT line FROM pgjobs_job
            WHERE line > hop.line AND line < kind.name || '!'
            ORDER BY line LIMIT 1
        ), number + 1
        FROM hop WHERE hop.line IS NOT NULL AND number < %(keys)s
    )
    SELECT line FROM hop WHERE line IS NOT NULL
) AS found
CROSS JOIN LATERAL (
    SELECT (array_agg(id ORDER BY priority DESC, id))[1], count(*) FROM (
        SELECT id, priority FROM pgjobs_job WHERE line = found.line LIMIT %(most)s
    ) AS job
) AS waiting (id, number)
WHERE kind.name <> 'unserved'
ORDER BY found.line
