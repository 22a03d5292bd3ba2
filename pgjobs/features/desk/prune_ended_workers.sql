-- Forget workers that ended more than a day ago, those beyond the latest thousand, and
-- acknowledgements that no longer hold. A batch of each.
WITH old AS MATERIALIZED (
    (
        SELECT id FROM pgjobs_endedworker
        WHERE ended_at < statement_timestamp() - interval '1 day'
        ORDER BY ended_at LIMIT %(limit)s
    )
    UNION
    (
        SELECT id FROM pgjobs_endedworker
        ORDER BY ended_at DESC OFFSET %(most)s LIMIT %(limit)s
    )
),
acknowledged AS (
    DELETE FROM pgjobs_acknowledgement WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_acknowledgement WHERE until < statement_timestamp()
        LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ))
),
deleted AS (
    DELETE FROM pgjobs_endedworker WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_endedworker WHERE id = ANY (ARRAY(SELECT id FROM old))
        FOR UPDATE SKIP LOCKED
    )) RETURNING id
)
SELECT count(*) FROM deleted
