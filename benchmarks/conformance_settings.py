"""A project for each backend that `benchmarks.conformance` asks; one name chooses."""

import os
from typing import Any
from urllib.parse import unquote, urlsplit

NAME = os.environ["CONFORMANCE_BACKEND"]
SECRET_KEY = "only for the suite"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGGING = {"version": 1, "root": {"level": "WARNING"}}


def database(variable: str) -> dict[str, Any]:
    url = urlsplit(os.environ[variable])
    return {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": unquote(url.hostname or ""),
        "PORT": url.port or "",
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "NAME": url.path.removeprefix("/"),
    }


DATABASES = {"default": database("DATABASE_URL"), "second": database("SECOND_URL")}
# The app, and the path of the backend. One task at a time, as the suite wants it.
CHOICES: dict[str, tuple[list[str], str, dict[str, Any]]] = {
    "pgjobs": (["pgjobs"], "pgjobs.backends.PgJobsBackend", {}),
    "django-tasks-db": (["django_tasks_db"], "django_tasks_db.DatabaseBackend", {}),
    "django-tasks-rq": (
        ["django_tasks", "django_rq", "django_tasks_rq"],
        "django_tasks_rq.RQBackend",
        {},
    ),
    "django-ox": (["django_ox"], "django_ox.backend.OxBackend", {}),
    "dj-queue": (
        ["dj_queue"],
        "dj_queue.backend.DjQueueBackend",
        {"workers": [{"queues": ["*"], "threads": 1}]},
    ),
    "steady-queue": (["steady_queue"], "steady_queue.backend.SteadyQueueBackend", {}),
    "django-absurd": (["django_absurd"], "django_absurd.backends.AbsurdBackend", {}),
}
apps, path, options = CHOICES[NAME]
# How they call the number of attempts, where it is not one anyway.
ATTEMPTS = {"django-ox": "MAX_ATTEMPTS", "django-absurd": "DEFAULT_MAX_ATTEMPTS"}
if NAME in ATTEMPTS and "ATTEMPTS" in os.environ:
    options = {ATTEMPTS[NAME]: int(os.environ["ATTEMPTS"])}
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    *apps,
    "django_tasks_conformance",
]
TASKS = {
    "default": {"BACKEND": path, "QUEUES": ["default", "other"], "OPTIONS": options}
}
if NAME == "django-tasks-rq":
    redis = {"URL": os.environ["REDIS_URL"]}
    RQ_QUEUES = {"default": redis, "other": redis}
if NAME == "steady-queue":
    from steady_queue.configuration import Configuration

    STEADY_QUEUE = Configuration.Options(workers=[Configuration.Worker(threads=1)])
