"""An ordinary Django project that has nothing but a queue."""

import os

import dj_database_url

DATABASES = {
    "default": dj_database_url.parse(os.environ["DATABASE_URL"], conn_max_age=600)
}
# As docs/performance.md recommends: statements are prepared.
DATABASES["default"]["OPTIONS"] = {"server_side_binding": True, "prepare_threshold": 5}
INSTALLED_APPS = ["pgjobs", "benchmarks.project"]
USE_TZ = True
# Everything is logged, as in production, and goes nowhere.
LOGGING = {
    "version": 1,
    "handlers": {"nowhere": {"class": "logging.NullHandler"}},
    "loggers": {
        "pgjobs": {"handlers": ["nowhere"], "level": "INFO", "propagate": False}
    },
}
