-- Record attempts that did not succeed, as record.sql does, with their groups of errors.
WITH
\ir ../../sql/worker/record/verdict.sql
\ir ../../sql/worker/record/attempt.sql
-- One row a group and version, so that many failures at once wait for no row.
grouped AS (
    INSERT INTO pgjobs_errorgroup AS known
        (id, task, exception_class, place, message, version)
    SELECT DISTINCT ON (error_group)
        error_group, task, exception_class, place, pattern, %(version)s
    FROM held
    WHERE error_group IS NOT NULL AND NOT EXISTS (
        SELECT FROM pgjobs_errorgroup
        WHERE id = held.error_group AND version = %(version)s
        OFFSET 0  -- one look-up for each, whatever the size of the table was
    )
    ORDER BY error_group
    ON CONFLICT (id) DO UPDATE SET version = excluded.version
),
\ir ../../sql/worker/record/end.sql
