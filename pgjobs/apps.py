from contextlib import suppress

from django.apps import AppConfig
from django.conf import settings as django_settings
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.models.signals import post_migrate, pre_migrate
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

from .base.database_choice import has_tables, queue_databases, sees_tables
from .base.readable import watch_connections
from .database.schema import follow_schema
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
        import_backends()
        pre_migrate.connect(prepare_to_migrate, sender=self)
        post_migrate.connect(store_declared, sender=self)


def import_backends() -> None:
    """Let this process know the tasks of `django.tasks` that run here.

    Django imports a backend with the first task, which a worker may need before.
    """
    for params in getattr(django_settings, "TASKS", {}).values():
        path = params.get("BACKEND", "")
        if not path.startswith(("django.", "django_tasks.")):
            with suppress(ImportError):  # Django reports it
                import_string(path)


def prepare_to_migrate(using: str, plan=(), **kwargs) -> None:
    """Let the functions follow their tables if someone has renamed the schema.

    Views of roles are dropped, which would hinder migrations.
    """
    if using in queue_databases() and connections[using].vendor == "postgresql":
        from .reports.role_views import drop_views  # needs the models

        follow_schema(connections[using])
        drop_views(using, plan)


def store_declared(using: str, apps=None, **kwargs) -> None:
    """Store what the code declares, if the database has all migrations."""
    connection = connections[using]
    if using not in queue_databases() or connection.vendor != "postgresql":
        return
    # Without `apps` the signal follows a flush, which changes no migration.
    if has_tables(using) if apps is None else is_migrated(connection):
        from .reports.role_views import make_views_again  # needs the models
        from .tasks.declaring import store_for_an_hour

        store_for_an_hour(using)
        make_views_again(using)


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
