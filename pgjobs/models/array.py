"""Arrays of PostgreSQL."""

from django.contrib.postgres import fields


class ArrayField(fields.ArrayField):
    """Store an array, also where `django.contrib.postgres` is not installed.

    Django 6.1 asks for that app. What the app adds is lookups and widgets, which no
    field of pgjobs needs.
    """

    def check(self, **kwargs):
        errors = super().check(**kwargs)
        return [error for error in errors if error.id != "postgres.E005"]

    def deconstruct(self):
        name, _, args, kwargs = super().deconstruct()
        return name, "django.contrib.postgres.fields.ArrayField", args, kwargs
