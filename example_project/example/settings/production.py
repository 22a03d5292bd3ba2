"""On a server. What is secret, or differs from server to server, is in the environment.

    SECRET_KEY=... ALLOWED_HOSTS=passes.example.org DATABASE_URL=postgres://... \\
    DJANGO_SETTINGS_MODULE=example.settings.production python manage.py runjobs
"""

import os
from datetime import timedelta

import dj_database_url

from .base import *  # noqa: F403
from .base import BASE_DIR

DEBUG = False
SECRET_KEY = os.environ["SECRET_KEY"]
ALLOWED_HOSTS = os.environ["ALLOWED_HOSTS"].split(",")
STATIC_ROOT = BASE_DIR / "static"

# A persistent connection saves each request, and so each `enqueue`, the time to open
# one. Workers have connections of their own.
DATABASES = {
    "default": dj_database_url.config(conn_max_age=600, conn_health_checks=True)
}

SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
# Browsers remember these for as many seconds, and refuse plain HTTP meanwhile. The last
# two also bind each subdomain, and a preload list keeps a domain for months. Copy them
# only if all hosts of your domain serve HTTPS for good.
SECURE_HSTS_SECONDS = 3_600
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = True
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

PGJOBS = {
    "TIMEOUT": timedelta(minutes=10),  # of each attempt: no task here takes longer
    "KEEP_LOGS": "WARNING",  # what tasks log is shown with their jobs in the admin
    "RETENTION": {"SUCCESSFUL": timedelta(days=2), "FAILED": timedelta(days=30)},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"job": {"()": "pgjobs.logging.JobFilter"}},
    "formatters": {
        "line": {
            "format": "{asctime} {levelname} {name} job={job_id} {message}",
            "style": "{",
        },
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "filters": ["job"],
            "formatter": "line",
        },
    },
    "root": {"handlers": ["console"], "level": "INFO"},
}
