-- The columns of other tables that refer to a table of pgjobs, whatever ON DELETE says: a
-- row to which one refers is needed.
\ir ../../sql/app/references/columns.sql
ORDER BY 1, 2
