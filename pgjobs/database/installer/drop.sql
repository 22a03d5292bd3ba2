-- Drop the objects of the current schema whose kind and name match <pattern>, a regular
-- expression such as ^(trigger|function) pgjobs_
--
-- A function that a constraint or an index calls stays as long as these do.
DO $drop$
DECLARE
    statement text;
BEGIN
    FOREACH statement IN ARRAY ARRAY(
        SELECT drop_it
        FROM (
            SELECT 1, 'trigger ' || tgname, relnamespace,
                format('DROP TRIGGER %I ON %s', tgname, tgrelid::regclass)
            FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
            WHERE NOT tgisinternal
            UNION ALL
            SELECT 2, 'function ' || proname, pronamespace,
                format('DROP ROUTINE %s', oid::regprocedure)
            FROM pg_proc
            WHERE NOT EXISTS (
                SELECT FROM pg_depend
                WHERE refclassid = 'pg_proc'::regclass AND refobjid = pg_proc.oid
                    AND classid IN ('pg_class'::regclass, 'pg_constraint'::regclass)
            )
            UNION ALL
            SELECT 3, 'sequence ' || relname, relnamespace,
                format('DROP SEQUENCE %s', oid::regclass)
            FROM pg_class WHERE relkind = 'S'
            UNION ALL
            SELECT 4, 'type ' || typname, typnamespace,
                format('DROP TYPE %s', oid::regtype)
            FROM pg_type WHERE typtype = 'c'
        ) AS object (place, name, namespace, drop_it)
        WHERE namespace = quote_ident(current_schema())::regnamespace
            AND name ~ '<pattern>'
        ORDER BY place
    ) LOOP
        EXECUTE statement;
    END LOOP;
END
$drop$
