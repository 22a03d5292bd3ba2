-- The columns of other tables that refer to a table of pgjobs.
SELECT quote_ident(namespace.nspname) || '.' || quote_ident(class.relname),
    quote_ident(attribute.attname)
FROM pg_catalog.pg_constraint AS reference
JOIN pg_catalog.pg_class AS class ON class.oid = reference.conrelid
JOIN pg_catalog.pg_namespace AS namespace ON namespace.oid = class.relnamespace
JOIN pg_catalog.pg_attribute AS attribute
    ON attribute.attrelid = class.oid AND attribute.attnum = reference.conkey[1]
WHERE reference.contype = 'f'
    AND reference.confrelid = to_regclass(%(table)s)
    AND reference.conparentid = 0
