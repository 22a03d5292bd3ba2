"""Errors of a database, in sentences that name the cure."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import connections
from django.db.utils import Error as DjangoDatabaseError
from psycopg import errors, sql

OUTDATED = (
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.UndefinedObject,
    errors.UndefinedTable,
)
# PUBLIC may not execute most of our functions; triggers need no right.
EXECUTE = """\
DO $grant$
DECLARE
    routine regprocedure;
BEGIN
    FOR routine IN
        SELECT oid FROM pg_proc
        WHERE proname LIKE 'pgjobs\\_%' AND prorettype <> 'trigger'::regtype
            AND pronamespace = (
                SELECT relnamespace FROM pg_class WHERE oid = 'pgjobs_job'::regclass
            )
    LOOP
        EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO %I', routine, {name});
    END LOOP;
END
$grant$;"""


@contextmanager
def explained(alias: str) -> Iterator[None]:
    """Raise CommandError for what the database of the alias refuses in the block."""
    try:
        yield
    except ImproperlyConfigured as error:
        raise CommandError(str(error), returncode=1) from error
    except (psycopg.Error, DjangoDatabaseError) as error:
        cause = error if isinstance(error, psycopg.Error) else error.__cause__
        sentence = explanation(alias, cause)
        if sentence is None:
            raise  # a bug of pgjobs, which needs its traceback
        raise CommandError(sentence, returncode=1) from error


def explanation(alias: str, error: BaseException | None) -> str | None:
    reason = str(error).strip().partition("\n")[0]
    match error:
        case errors.ReadOnlySqlTransaction():
            return (
                f"The database {alias!r} is read-only: {reason}. Connect to the "
                "primary server, with default_transaction_read_only off."
            )
        case errors.InsufficientPrivilege():
            return (
                f"The role of the database {alias!r} may not do that: {reason}. "
                f"As the owner of the tables, run:\n{grants(alias)}"
            )
        case psycopg.Error() if isinstance(error, OUTDATED):
            return (
                f"The database {alias!r} lacks what this version needs: {reason}. Run "
                f"'manage.py migrate pgjobs --database {alias}'; if that has nothing "
                "to do, the search_path is not that of migrate."
            )
        case psycopg.OperationalError(sqlstate=None):  # the server was not reached
            return f"The database {alias!r} cannot be reached: {str(error).strip()}"
        case psycopg.OperationalError():
            return f"The database {alias!r} failed: {reason}"
    return None


def grants(alias: str) -> str:
    """Return the SQL that lets the role of the alias do all that pgjobs does."""
    given = connections[alias].settings_dict
    name = given["OPTIONS"].get("assume_role") or given["USER"]
    role = sql.Identifier(name).as_string(None) if name else "<role>"
    literal = sql.Literal(name or "<role>").as_string(None)
    models = apps.get_app_config("pgjobs").get_models()
    tables = ", ".join(model._meta.db_table for model in models)
    return (
        f"GRANT SELECT ON django_migrations TO {role};\n"
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {role};\n"
        f"GRANT USAGE ON SEQUENCE pgjobs_lease_token, pgjobs_turn TO {role};\n"
        f"GRANT SELECT, UPDATE ON SEQUENCE pgjobs_known_timeline, pgjobs_lease_token, "
        f"pgjobs_worker_id_seq TO {role};\n"
        f"{EXECUTE.format(name=literal)}"
    )
