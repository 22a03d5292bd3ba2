from contextlib import suppress

from django.apps import AppConfig
from django.conf import settings as django_settings
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.models.signals import post_migrate
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

from .base.database_choice import has_tables, queue_databases
from .tasks import events, schedules
from .tasks.definitions import store_definitions
from .tasks.registry import registry


class PgjobsConfig(AppConfig):
    name = "pgjobs"
    verbose_name = _("Background jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks  # noqa: F401  (registers them)
        from .tasks import sensitive  # noqa: F401  (tells reports what tasks mask)

        registry.discover()
        import_backends()
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


def store_declared(using: str, apps=None, **kwargs) -> None:
    """Store what the code declares, if the database has all migrations."""
    connection = connections[using]
    if using not in queue_databases() or connection.vendor != "postgresql":
        return
    # Without `apps` the signal follows a flush, which changes no migration.
    if has_tables(using) if apps is None else is_migrated(connection):
        store_definitions(using)
        schedules.store_declared(using)
        events.store_declared(using)


def is_migrated(connection) -> bool:
    loader = MigrationLoader(connection)
    return all(
        node in loader.applied_migrations for node in loader.graph.leaf_nodes("pgjobs")
    )
