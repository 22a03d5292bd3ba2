"""The settings of the example: a plain Django project with pgjobs in it."""

import os
from pathlib import Path

from example.database import database_settings

BASE_DIR = Path(__file__).resolve().parent.parent

# An example on your own machine. In production: False, a secret key, your hosts.
DEBUG = os.environ.get("DEBUG", "1") == "1"
SECRET_KEY = "only-for-the-example-everybody-can-read-it"
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]

INSTALLED_APPS = [
    "admin_actions",  # Before the admin: its templates extend the admin's.
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "pgjobs",
    "example",
    "passes",
    "converter",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "example.urls"
WSGI_APPLICATION = "example.wsgi.application"

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

DATABASES = {"default": database_settings(BASE_DIR / ".pgdata")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"

# Every key is optional, for instance {"CONCURRENCY": 8, "POLL_INTERVAL": 2}.
PGJOBS = {}

# Where passes.refresh_elements reads two-line elements: a file, or an address such as
# https://celestrak.org/NORAD/elements/gp.php?GROUP=stations&FORMAT=tle
ELEMENTS_SOURCE = os.environ.get(
    "ELEMENTS_SOURCE", BASE_DIR / "data" / "satellites.tle"
)
