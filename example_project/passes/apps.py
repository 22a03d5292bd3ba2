"""Set the app up."""

from django.apps import AppConfig


class PassesConfig(AppConfig):
    """Satellites and their passes."""

    name = "passes"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        """Connect the receivers that enqueue jobs."""
        from . import signals  # noqa: F401
