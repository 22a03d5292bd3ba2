"""Set the app up."""

from django.apps import AppConfig


class ConverterConfig(AppConfig):
    """Conversion of data files."""

    name = "converter"
    default_auto_field = "django.db.models.BigAutoField"
