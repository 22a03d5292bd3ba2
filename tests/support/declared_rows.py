"""Store what the code declares, before each test that commits, in less time.

Django sends `post_migrate` before such a test, and pgjobs stores all definitions and
subscriptions. The rows are the same each time: after the first they are copied.
"""

from django.apps import apps
from django.db import connections
from django.db.models.signals import post_migrate

from pgjobs.apps import store_declared
from pgjobs.base.database_choice import queue_databases
from pgjobs.conf import settings
from pgjobs.tasks.registry import registry
from tests.support.declared import store_schedules

MODELS = ("TaskDefinition", "Subscription")
ANY_ROW = (
    "EXISTS (SELECT FROM pgjobs_taskdefinition) OR"
    " EXISTS (SELECT FROM pgjobs_subscription)"
)
# By the database and what rows are made of.
copies: dict[tuple, dict[str, bytes]] = {}


def install() -> None:
    config = apps.get_app_config("pgjobs")
    post_migrate.disconnect(store_declared, sender=config)
    post_migrate.connect(store_or_copy, sender=config)


def store_or_copy(using: str, **how) -> None:
    """Copy the rows into empty tables; otherwise do as pgjobs does."""
    # With `apps` it follows a migration.
    if "apps" in how or using not in queue_databases() or has_rows(using):
        return store_declared(using, **how)
    name = connections[using].settings_dict["NAME"]
    # A test may have adapted tasks of `django.tasks` that no module has any more, or
    # others of the same names.
    known = sorted(registry.all_tasks(), key=lambda task: task.name)
    key = (name, settings.MAX_ARGUMENT_BYTES, *known, *registry.tasks)
    if key in copies:
        paste(using, copies[key])
        store_schedules(using)  # their next runs are in the future
    else:
        store_declared(using, **how)
        copies[key] = {table: copy(using, table) for table in map(columns_of, MODELS)}


def columns_of(name: str) -> str:
    """Return a table with its columns but for the id, which a sequence gives again."""
    meta = apps.get_model("pgjobs", name)._meta
    columns = [f'"{each.column}"' for each in meta.concrete_fields[1:]]
    assert meta.concrete_fields[0].primary_key
    return f"{meta.db_table} ({', '.join(columns)})"


def has_rows(using: str) -> bool:
    with connections[using].cursor() as cursor:
        cursor.execute(f"SELECT {ANY_ROW}")
        return cursor.fetchone()[0]


def copy(using: str, table: str) -> bytes:
    with (
        connections[using].cursor() as cursor,
        cursor.copy(f"COPY {table} TO STDOUT") as rows,
    ):
        return b"".join(map(bytes, rows))


def paste(using: str, rows: dict[str, bytes]) -> None:
    with connections[using].cursor() as cursor:
        for table, content in rows.items():
            with cursor.copy(f"COPY {table} FROM STDIN") as stored:
                stored.write(content)
