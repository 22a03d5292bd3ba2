from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class PgjobsConfig(AppConfig):
    name = "pgjobs"
    verbose_name = _("Background jobs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks  # noqa: F401  (registers them)
        from .tasks import registry

        registry.discover()
        post_migrate.connect(store_declared_schedules, sender=self)


def store_declared_schedules(using: str, apps=None, **kwargs) -> None:
    """Store what the tasks declare, once the tables are there."""
    from .conf import settings
    from .schedules import store_declared

    has_table = apps is None or ("pgjobs", "schedule") in {
        (model._meta.app_label, model._meta.model_name) for model in apps.get_models()
    }
    is_queue = using == settings.DATABASE
    if has_table and is_queue and connections[using].vendor == "postgresql":
        store_declared(using)
