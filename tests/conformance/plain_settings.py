"""Settings of a project without a database; its environment names the backend."""

import os

import django

PACKAGE = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"
SECRET_KEY = "only-for-tests"
USE_TZ = True
INSTALLED_APPS = ["django_tasks_conformance"]
if django.VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")
BACKEND = os.environ.get("CONFORMANCE_BACKEND", "backends.immediate.ImmediateBackend")
TASKS = {
    "default": {
        "BACKEND": BACKEND if BACKEND.startswith("tests.") else f"{PACKAGE}.{BACKEND}",
        "QUEUES": ["default", "other"],
        "OPTIONS": {"colour": "blue"},
    }
}
