from django.apps import AppConfig
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.models.signals import post_migrate, pre_migrate
from django.utils.translation import gettext_lazy as _

from .base.database_choice import has_tables, queue_databases, sees_tables
from .base.readable import watch_connections
from .database.schema import follow_schema
from .features import entries
from .tasks.registry import registry


class PgjobsConfig(AppConfig):
    name = "pgjobs"
    verbose_name = _("Background jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks  # noqa: F401  (registers them)
        from .tasks import sensitive  # noqa: F401  (tells reports what tasks mask)

        watch_connections()
        registry.discover()
        # Not from the modules "start": they import what most processes do not need.
        for prepare in entries("ready", "ON_READY"):
            prepare()
        pre_migrate.connect(prepare_to_migrate, sender=self)
        post_migrate.connect(store_declared, sender=self)


def prepare_to_migrate(using: str, plan=(), **kwargs) -> None:
    """Let the functions follow their tables if someone has renamed the schema."""
    if using in queue_databases() and connections[using].vendor == "postgresql":
        follow_schema(connections[using])
        for prepare in entries("start", "BEFORE_MIGRATE"):
            prepare(using, plan)


def store_declared(using: str, apps=None, **kwargs) -> None:
    """Store what the code declares, if the database has all migrations."""
    connection = connections[using]
    if using not in queue_databases() or connection.vendor != "postgresql":
        return
    # Without `apps` the signal follows a flush, which changes no migration.
    if has_tables(using) if apps is None else is_migrated(connection):
        for store in entries("start", "ON_MIGRATE"):
            store(using)


def is_migrated(connection) -> bool:
    """Whether the database has all migrations, and here the tables that they made.

    A project with a schema for each tenant may note migrations where it made no table.
    """
    if not sees_tables(connection):
        return False
    loader = MigrationLoader(connection)
    return all(
        node in loader.applied_migrations for node in loader.graph.leaf_nodes("pgjobs")
    )
