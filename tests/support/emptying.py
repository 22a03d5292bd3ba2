"""Empty the tables after a test that commits, with a tenth of the work of TRUNCATE.

TRUNCATE makes new files for each table and index, and lets all sessions read the
catalogue again. Most tests leave a few rows, which DELETE removes at once. Only a
superuser can leave out the triggers, so the harness does it.
"""

from django.db.backends.postgresql.operations import DatabaseOperations

from tests import harness
from tests.support import kept_rows

truncate = DatabaseOperations.sql_flush
# The planner takes a table of fewer pages for one of ten, whatever was deleted there.
FEW_PAGES = 8
PATIENCE = 60  # seconds, for a session in which a test has left a transaction open
# It waits for the transactions of other sessions, as TRUNCATE does. What has grown, was
# analyzed or belongs to a table of other apps is left to TRUNCATE.
EMPTY = """
DO $$
DECLARE
    tables CONSTANT regclass[] := '{{{tables}}}';
    each regclass;
BEGIN
    SET LOCAL lock_timeout = '{patience}s';
    LOOP
        BEGIN
            LOCK TABLE {tables};
            EXIT;
        EXCEPTION WHEN deadlock_detected THEN
            -- A worker whose supervisor was killed has not ended yet. It goes first.
        END;
    END LOOP;
    SET LOCAL session_replication_role = replica;  -- without triggers
    FOREACH each IN ARRAY tables LOOP
        IF pg_table_size(each) > {few_pages} * current_setting('block_size')::integer
            OR (SELECT reltuples >= 0 FROM pg_class WHERE oid = each)
            OR EXISTS (
                SELECT FROM pg_constraint
                WHERE confrelid = each AND NOT conrelid = ANY (tables)
            )
        THEN
            EXECUTE 'TRUNCATE ' || each || ' CASCADE';
        ELSE
            EXECUTE 'DELETE FROM ' || each;
        END IF;
    END LOOP;
END $$
"""


def sql_flush(operations, style, tables, *, reset_sequences=False, **how) -> list[str]:
    """Return the statements that empty the tables."""
    how["reset_sequences"] = reset_sequences
    tables = [each for each in tables if each not in kept_rows.TABLES]
    statements = truncate(operations, style, tables, **how)
    if reset_sequences or not tables:
        return statements
    names = ", ".join(map(operations.quote_name, tables))
    return [EMPTY.format(tables=names, few_pages=FEW_PAGES, patience=PATIENCE)]


def execute_sql_flush(operations, statements) -> None:
    """Run what sql_flush returned, as the superuser."""
    database = operations.connection.settings_dict["NAME"]
    for statement in statements:
        harness.execute(statement, database=database)
