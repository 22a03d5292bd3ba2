"""What the adapters of Django's other queues share: a project in a few lines."""

import os
from urllib.parse import unquote, urlsplit

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection


def set_up_django(app: str, **own_settings) -> None:
    """Configure a project with one app, as lean as the one that pgjobs is in."""
    url = urlsplit(os.environ["DATABASE_URL"])
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": unquote(url.hostname or ""),
        "PORT": url.port or "",
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "NAME": url.path.removeprefix("/"),
        "CONN_MAX_AGE": 600,
        "OPTIONS": {"server_side_binding": True, "prepare_threshold": 5},
    }
    settings.configure(
        DATABASES={"default": database},
        INSTALLED_APPS=[app],
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        SECRET_KEY="only for the benchmark",
        USE_TZ=True,
        # Warnings alone: their workers print a line or more for each job.
        LOGGING={"version": 1, "root": {"level": "WARNING"}},
        **own_settings,
    )
    django.setup()


def migrate() -> None:
    call_command("migrate", verbosity=0)


def count(query: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]
