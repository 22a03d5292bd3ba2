from pathlib import Path

from django.core.management.base import CommandError
from django.db import connections
from django.db.backends.utils import CursorWrapper

from ...management.parameters import add_database, ready_database
from ...management.speaking import QuietCommand
from ...sql.columns import MARKS
from .views import view_statements

# What each kind of role needs of the database, and nothing more.
FILES = Path(__file__).parent / "kinds"
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
    text = (FILES / f"{kind}.sql").read_text()
    values = {
        "functions": (FILES / "functions.sql").read_text(),
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


class Command(QuietCommand):
    help = (
        "Print the GRANT statements for roles of the database that exist: "
        "manage.py pgjobsroles web=shop worker=shop_jobs | psql. "
        f"The kinds are {', '.join(KINDS)}. Run them as the owner of the tables, "
        "and again after each upgrade of pgjobs."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "roles",
            nargs="+",
            metavar="KIND=ROLE",
            help="what the role does, and its name in the database: web=shop",
        )
        add_database(parser)

    def handle(self, **options):
        with ready_database(options["database"]) as alias:
            connection = connections[alias]
            with connection.cursor() as cursor:
                schema = schema_of(cursor)
            for given in options["roles"]:
                kind, _, role = given.partition("=")
                if kind not in KINDS or not role:
                    known = ", ".join(KINDS)
                    raise CommandError(
                        f"Roles are given as KIND=ROLE, with a kind of {known}; "
                        f"got {given!r}."
                    )
                quoted = connection.ops.quote_name(role)
                self.stdout.write(grants(kind, quoted, schema))
                if kind == WATCHES:
                    self.stdout.write("\n".join(view_statements(quoted)))
