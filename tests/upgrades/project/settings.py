"""Settings of a project that uses nothing that a release may not have had."""

import os

import dj_database_url

INSTALLED_APPS = ["pgjobs", "project"]
SECRET_KEY = "only-for-tests"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": dj_database_url.parse(os.environ["DATABASE_URL"])}
PGJOBS = {"HEARTBEAT_INTERVAL": 1, "LEASE_DURATION": 60, "POLL_INTERVAL": 1}
