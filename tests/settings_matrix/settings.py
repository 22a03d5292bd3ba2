"""A small project whose settings are those of one case of the matrix."""

import json
import os

import django

CASE = json.loads(os.environ["PGJOBS_MATRIX"])

INSTALLED_APPS = [
    *CASE.get("theme", ()),
    "admin_actions",
    CASE.get("admin", "django.contrib.admin"),
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    *(["django_tasks"] if django.VERSION < (6, 0) else []),
    "pgjobs",
    "tests.settings_matrix",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
ROOT_URLCONF = "tests.settings_matrix.urls"
STATIC_URL = "static/"
SECRET_KEY = "only-for-tests"
ALLOWED_HOSTS = ["testserver"]
USE_TZ = CASE.get("use_tz", True)
TIME_ZONE = CASE.get("time_zone", "UTC")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DATABASES = {
    alias: {"ENGINE": "django.db.backends.postgresql", **values}
    for alias, values in CASE["databases"].items()
}
DATABASE_ROUTERS = CASE.get("routers", [])
PGJOBS = {"POLL_INTERVAL": 0.2, **CASE.get("pgjobs", {})}
TASKS = {"default": {"BACKEND": "pgjobs.backends.PgJobsBackend", "QUEUES": []}}
