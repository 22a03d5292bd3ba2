-- The columns of other tables that refer to a table of pgjobs and keep its rows from
-- being deleted. Those with ON DELETE CASCADE, SET NULL or SET DEFAULT do not.
\ir references/columns.sql
    AND reference.confdeltype IN ('a', 'r')
ORDER BY 1, 2
