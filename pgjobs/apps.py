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
        post_migrate.connect(store_declared, sender=self)


def store_declared(using: str, apps=None, **kwargs) -> None:
    """Store what the tasks declare, once the tables are there."""
    from . import events, schedules
    from .conf import settings

    if using != settings.DATABASE or connections[using].vendor != "postgresql":
        return
    models = {each._meta.label_lower for each in apps.get_models()} if apps else None
    if models is None or "pgjobs.schedule" in models:
        schedules.store_declared(using)
    if models is None or "pgjobs.subscription" in models:
        events.store_declared(using)
