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
    """Store what the code declares, each kind once its table is there."""
    from . import events, schedules
    from .conf import settings
    from .definitions import store_definitions

    if using != settings.DATABASE or connections[using].vendor != "postgresql":
        return
    for model, store in (
        ("taskdefinition", store_definitions),
        ("schedule", schedules.store_declared),
        ("subscription", events.store_declared),
    ):
        if apps is None or model in apps.all_models["pgjobs"]:
            store(using)
