"""What development and production have in common: a Django project with pgjobs."""

import os
from pathlib import Path

import django

BASE_DIR = Path(__file__).resolve().parent.parent.parent

INSTALLED_APPS = [
    "admin_actions",  # Before the admin: its templates extend the admin's.
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "example",  # Before pgjobs: its pages for answers look like the others.
    "pgjobs",
    "passes",
    "converter",
]
if django.VERSION < (6, 0):
    INSTALLED_APPS += ["django_tasks"]  # what Django has had since 6.0

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    # The admin speaks the language of the browser, as far as it has a catalogue.
    "django.middleware.locale.LocaleMiddleware",
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

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Where people sign in who are to answer a task.
LOGIN_URL = "admin:login"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"

# Tasks of Django's own API are jobs like all others.
TASKS = {"default": {"BACKEND": "pgjobs.backends.PgJobsBackend"}}

# Where passes.refresh_elements reads two-line elements: a file, or an address such as
# https://celestrak.org/NORAD/elements/gp.php?GROUP=stations&FORMAT=tle
ELEMENTS_SOURCE = os.environ.get(
    "ELEMENTS_SOURCE", BASE_DIR / "data" / "satellites.tle"
)
