"""What the database has of ours, as its catalogue says it."""

from collections.abc import Iterable

from django.db import connection

from pgjobs.database.install import PostgreSQLOperation
from tests.actors import execute

OBJECTS = """
SELECT 'function ' || proname, concat_ws(
    E'\\n', pg_get_functiondef(oid),
    (SELECT string_agg(item::text, ' ' ORDER BY item::text) FROM unnest(proacl) AS item)
)
FROM pg_proc
WHERE proname LIKE 'pgjobs%'
    AND pronamespace = quote_ident(current_schema())::regnamespace
UNION ALL
SELECT 'trigger ' || tgname, pg_get_triggerdef(pg_trigger.oid)
FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
WHERE NOT tgisinternal AND relnamespace = quote_ident(current_schema())::regnamespace
"""


def catalogue() -> dict[str, str]:
    """Return {kind and name: definition, settings and rights} of the schema."""
    rows = execute(OBJECTS)
    found = dict(rows)
    assert len(found) == len(rows)  # no name has two signatures
    return found


def run(statements: Iterable[str]) -> None:
    """Run statements in a transaction, as a migration does."""
    operation = PostgreSQLOperation()
    with connection.schema_editor() as editor:
        operation.run("pgjobs", editor, statements)
