"""Reports as views, for a role that may read neither arguments nor keys.

The keys of locks, limits and rates are made of arguments. A view reads with the right
of its owner. These show which jobs wait, for what kind of thing and how long, and no
key. PostgreSQL alters no column that a view reads, and drops no function that it calls.
So the views call none of ours, and `migrate` drops them and makes them again.
"""

from collections.abc import Iterator
from datetime import timedelta

from django.db import connections
from django.db.migrations import Migration

from ...features import entries
from ...reports import obstacles, status
from ...reports.reading import VIEW, Report
from ...sql import statement

REPORTS = (
    Report("lines", obstacles.LINES, ("id", "number")),
    Report("obstacles", {}, obstacles.Obstacle._fields, hidden=("key",)),
    Report(
        "queue_states",
        status.QUEUE_STATES,
        ("name", "state", "number", "since", "is_capped"),
    ),
    Report("linked", status.LINKED, ("kind", "number", "first")),
    *entries("remarks", "ROLE_VIEWS"),
)


READERS = """
SELECT DISTINCT quote_ident(pg_get_userbyid(acl.grantee))
FROM pg_class CROSS JOIN aclexplode(relacl) AS acl
WHERE pg_class.oid = to_regclass(%s) AND acl.grantee NOT IN (0, relowner)
    AND pg_has_role(relowner, 'USAGE')
"""
readers: dict[str, list[str]] = {}  # of the views that a migration has dropped


def drop_views(using: str, plan: list[tuple[Migration, bool]]) -> None:
    """Drop the views, if there are any, before migrations of pgjobs.

    Those of another owner stay.
    """
    if not any(migration.app_label == "pgjobs" for migration, _ in plan):
        return
    with connections[using].cursor() as cursor:
        cursor.execute(READERS, [f"{VIEW}{REPORTS[0].name}"])
        if found := [role for (role,) in cursor.fetchall()]:
            readers[using] = found
            names = ", ".join(f"{VIEW}{report.name}" for report in REPORTS)
            cursor.execute(f"DROP VIEW IF EXISTS {names}")


def make_views_again(using: str) -> None:
    """Make the views that `drop_views` dropped, for the roles that could read them."""
    with connections[using].cursor() as cursor:
        for role in readers.pop(using, ()):
            for each in view_statements(role):
                cursor.execute(each)


def view_statements(role: str) -> Iterator[str]:
    """Yield what makes the views and lets a role read them; `role` as SQL writes it."""
    for report in REPORTS:
        names = ", ".join(report.columns)
        shown = ", ".join(
            f"NULL::text AS {name}" if name in report.hidden else name
            for name in report.columns
        )
        values = {name: literal(each) for name, each in report.parameters.items()}
        yield (
            f"CREATE OR REPLACE VIEW {VIEW}{report.name} AS\n"
            f"SELECT {shown} FROM (\n{statement(report.name) % values}\n)"
            f" AS report ({names});"
        )
        yield f"GRANT SELECT ON {VIEW}{report.name} TO {role};"


def literal(value: int | timedelta | None) -> str:
    """Return a bound of a report as SQL writes it."""
    if isinstance(value, timedelta):
        return f"'{value.total_seconds():g} seconds'"
    return "NULL" if value is None else str(value)
