"""Which queue a call means: that of the database that its data is in.

A job must commit with the data that it belongs to. So a project with several databases
has a queue in each, and nothing of pgjobs reads or locks across two of them.
"""

from collections.abc import Iterator

from django.apps import apps
from django.conf import settings as django_settings
from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from ..conf import settings
from ..exceptions import AmbiguousDatabase

# By the alias and name of a database: whether it has the tables of pgjobs.
known_to_have: dict[tuple[str, str], bool] = {}


def database_to_write() -> str:
    """Return the alias of the database in which a new job belongs.

    It is the first that there is of these: the database of the running job, the
    router's answer, the database of the open transaction, PGJOBS["DATABASE"]. Raises
    AmbiguousDatabase.
    """
    return certain_database() or routed("db_for_write") or database_of_transaction()


def database_to_read() -> str:
    """Return the alias of the database that is looked into.

    The choice is that of `database_to_write`. Where that would raise, it is
    PGJOBS["DATABASE"].
    """
    try:
        return certain_database() or routed("db_for_read") or database_of_transaction()
    except AmbiguousDatabase:
        return settings.get("DATABASE")


def database_to_change(alias: str) -> str:
    """Return the database in which rows that were read from this alias are changed.

    Routers read from replicas, where nothing can be changed. Their rows are changed
    where the router writes. Raises AmbiguousDatabase.
    """
    return alias if takes_changes(alias) else database_to_write()


def takes_changes(alias: str) -> bool:
    """Whether rows of this alias are its own, and not those of another database."""
    if settings.database_in_use == alias or alias in (given_databases() or ()):
        return True
    if (chosen := routed("db_for_write")) is None or chosen == alias:
        return True
    if given_databases() is not None or not may_be_migrated(alias):
        return False
    return not is_read_only(alias)


def is_read_only(alias: str) -> bool:
    """Whether sessions of this alias can change nothing, as on a standby."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT current_setting('transaction_read_only')::boolean")
        return cursor.fetchone()[0]


def certain_database() -> str | None:
    """Return the database of the running job, or the only one that there is."""
    if in_use := settings.database_in_use:
        return in_use
    return settings.get("DATABASE") if len(connections.databases) == 1 else None


def routed(method: str) -> str | None:
    """Return the database that the project's routers choose for jobs, if any.

    Django's own function would return "default" where no router answers.
    """
    if not router.routers:
        return None
    job = apps.get_model("pgjobs", "Job")
    for each in router.routers:
        ask = getattr(each, method, None)
        alias = ask(job) if ask else None
        if alias and (method == "db_for_read" or may_have_queue(alias)):
            return alias
    return None


def may_have_queue(alias: str) -> bool:
    """Whether a router's answer counts; raise AmbiguousDatabase for a contradiction.

    A router that sends all models to one primary says nothing of a queue for which
    PGJOBS["DATABASE"] names another.
    """
    given = given_databases()
    if given is None or alias in given:
        return True
    if settings.DATABASES is None:
        return False
    raise AmbiguousDatabase(
        f"A router of DATABASE_ROUTERS sends jobs to {alias!r}, which "
        f"PGJOBS['DATABASES'] does not name: {', '.join(given)}."
    )


def database_of_transaction() -> str:
    """Return the only database with an open transaction, or PGJOBS["DATABASE"]."""
    default = settings.get("DATABASE")
    found = [
        each.alias
        for each in connections.all(initialized_only=True)
        if is_in_transaction(each) and (each.alias == default or has_queue(each.alias))
    ]
    if len(found) > 1:
        raise AmbiguousDatabase(
            f"Transactions are open in {' and '.join(map(repr, found))}, so it is not "
            "clear which of them the job belongs to. Name it: "
            f"task.using(database={found[-1]!r})."
        )
    return found[0] if found else default


def is_in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Whether code has opened a block, apart from the one of Django's TestCase."""
    if not connection.in_atomic_block:
        return False
    return not all(block._from_testcase for block in connection.atomic_blocks)


def has_queue(alias: str) -> bool:
    given = given_databases()
    if given is not None:
        return alias in given
    return may_be_migrated(alias) and has_tables(alias)


def given_databases() -> tuple[str, ...] | None:
    """Return the databases that PGJOBS names, the default one first."""
    default, others = settings.get("DATABASE"), settings.DATABASES
    if others is not None:
        return tuple(dict.fromkeys((default, *others)))
    is_named = "DATABASE" in getattr(django_settings, "PGJOBS", {})
    return (default,) if is_named else None


def queue_databases() -> tuple[str, ...]:
    """Return the aliases of all databases that may have a queue, the default first.

    This opens no connection. A database that PGJOBS does not name is among them even
    if pgjobs was not migrated to it yet.
    """
    given = given_databases()
    return given if given is not None else tuple(found_databases())


def found_databases() -> Iterator[str]:
    default = settings.get("DATABASE")
    yield default
    for alias in connections:
        if alias != default and may_be_migrated(alias):
            yield alias


def may_be_migrated(alias: str) -> bool:
    """Whether it is a PostgreSQL of its own, and no router keeps pgjobs out of it."""
    connection = connections[alias]
    if connection.vendor != "postgresql" or connection.settings_dict["TEST"]["MIRROR"]:
        return False
    return router.allow_migrate(alias, "pgjobs", model_name="job")


def has_tables(alias: str) -> bool:
    connection = connections[alias]
    key = (alias, str(connection.settings_dict["NAME"]))
    if not known_to_have.get(key):
        known_to_have[key] = sees_tables(connection)
    return known_to_have[key]


def sees_tables(connection: BaseDatabaseWrapper) -> bool:
    """Whether the tables are there, by the present search path."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('pgjobs_job') IS NOT NULL")
        return cursor.fetchone()[0]
