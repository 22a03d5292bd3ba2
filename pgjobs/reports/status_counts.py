"""How many jobs there are of each status, for the tabs of the list."""

from django.db import connections

from ..sql import statement

MOST_COUNTED = 10_000


def status_counts(database: str) -> dict[str, int]:
    """Return the number of jobs by status, one more than MOST_COUNTED at most."""
    with connections[database].cursor() as cursor:
        cursor.execute(statement("status_counts"), {"most": MOST_COUNTED + 1})
        return dict(cursor.fetchall())
