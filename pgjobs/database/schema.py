"""Functions whose fixed search path leads to another schema than that of the tables.

A schema that is renamed, or a copy under another name, leaves them behind.
"""

from django.db.backends.base.base import BaseDatabaseWrapper

ASTRAY = """
SELECT function.oid::regprocedure::text, relnamespace::regnamespace::text
FROM pg_class AS jobs
JOIN pg_proc AS function ON pronamespace = relnamespace
    AND proname LIKE 'pgjobs\\_%'
    AND EXISTS (
        SELECT FROM unnest(proconfig) AS setting
        WHERE setting LIKE 'search\\_path=%'
            AND setting <> 'search_path=' || relnamespace::regnamespace || ', pg_temp'
    )
WHERE jobs.oid = to_regclass('pgjobs_job')
ORDER BY 1
"""


def functions_astray(connection: BaseDatabaseWrapper) -> list[tuple[str, str]]:
    """Return such functions, each with the schema of the tables, both as SQL."""
    with connection.cursor() as cursor:
        cursor.execute(ASTRAY)
        return cursor.fetchall()


def follow_schema(connection: BaseDatabaseWrapper) -> None:
    """Let such functions look where the tables are. Only their owner can do this."""
    with connection.cursor() as cursor:
        for function, schema in functions_astray(connection):
            cursor.execute(
                f"ALTER ROUTINE {function} SET search_path = {schema}, pg_temp"
            )
