"""What each kind of role needs of the database, and nothing more."""

from pathlib import Path

from django.db.backends.utils import CursorWrapper

from ...sql.columns import MARKS

HERE = Path(__file__).parent
WATCHES = "dashboard"
KINDS = ("web", "worker", "producer", WATCHES)
SCHEMA = """
SELECT relnamespace::regnamespace::text FROM pg_class
WHERE oid = to_regclass('pgjobs_job')
"""


def grants(kind: str, role: str, schema: str) -> str:
    """Return the statements that give a role what its kind needs.

    `role` and `schema` as SQL writes them.
    """
    text = (HERE / f"{kind}.sql").read_text()
    values = {
        "functions": (HERE / "functions.sql").read_text(),
        "columns": MARKS["all_columns"],  # those of a new job
        "role": role,
        "schema": schema,
    }
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def schema_of(cursor: CursorWrapper) -> str:
    """Return where the tables are."""
    cursor.execute(SCHEMA)
    return cursor.fetchone()[0]
