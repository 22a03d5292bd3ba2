from django.core.management.base import BaseCommand, CommandError
from django.db import connections

from ...database import roles
from ...reports.role_views import view_statements
from ..parameters import add_database, ready_database


class Command(BaseCommand):
    help = (
        "Print the GRANT statements for roles of the database that exist: "
        "manage.py pgjobsroles web=shop worker=shop_jobs | psql. "
        f"The kinds are {', '.join(roles.KINDS)}. Run them as the owner of the tables, "
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
                schema = roles.schema_of(cursor)
            for given in options["roles"]:
                kind, _, role = given.partition("=")
                if kind not in roles.KINDS or not role:
                    known = ", ".join(roles.KINDS)
                    raise CommandError(
                        f"Roles are given as KIND=ROLE, with a kind of {known}; "
                        f"got {given!r}."
                    )
                quoted = connection.ops.quote_name(role)
                self.stdout.write(roles.grants(kind, quoted, schema))
                if kind == roles.WATCHES:
                    self.stdout.write("\n".join(view_statements(quoted)))
