"""On your own machine: an embedded PostgreSQL, and everything in sight."""

from example.database import database_settings

from .base import *  # noqa: F403
from .base import BASE_DIR

DEBUG = True
SECRET_KEY = "only-for-the-example-everybody-can-read-it"
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]

# DATABASE_URL names another one.
DATABASES = {"default": database_settings(BASE_DIR / ".pgdata")}

# Every key is optional, for instance {"CONCURRENCY": 8, "POLL_INTERVAL": 2}.
PGJOBS = {}
