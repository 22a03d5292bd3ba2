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
        post_migrate.connect(store_what_code_declares, sender=self)


def store_what_code_declares(using: str, apps=None, **kwargs) -> None:
    """Store the tasks and their schedules, each once its table is there."""
    from .conf import settings
    from .definitions import store_definitions
    from .schedules import store_declared

    if using != settings.DATABASE or connections[using].vendor != "postgresql":
        return
    for model, store in (
        ("taskdefinition", store_definitions),
        ("schedule", store_declared),
    ):
        if apps is None or model in apps.all_models["pgjobs"]:
            store(using)
