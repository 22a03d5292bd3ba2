"""What the database holds, as text."""

from django.db import connection


def whole_database() -> str:
    """Return all rows of all tables."""
    texts = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT each::text FROM "{table}" AS each')
            texts += [row for (row,) in cursor.fetchall()]
    return "\n".join(texts)
