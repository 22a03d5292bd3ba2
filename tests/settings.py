"""Settings of the test suite: pgjobs and the example's apps on a real PostgreSQL."""

import json
import os
import sys
from pathlib import Path

import dj_database_url
import django
from example.database import embedded_server_url
from psycopg.conninfo import conninfo_to_dict

# The app of which the documentation's examples speak.
sys.path.append(str(Path(__file__).resolve().parent / "documents/project"))

INSTALLED_APPS = [
    "admin_actions",
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
    "shop",
    "tests",
    "tests.features.durable",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
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
ROOT_URLCONF = "example.urls"
STATIC_URL = "static/"
SECRET_KEY = "only-for-tests"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# The superuser's way to the server, for tests/harness.py alone.
SERVER_URL = os.environ.get("DATABASE_URL") or embedded_server_url(
    Path(__file__).resolve().parent / ".pgdata"
)
# An ordinary role owns the database and does the rest: migrations, tests, workers.
OWNER = "pgjobs_tests"
DATABASES = {
    "default": {
        **dj_database_url.parse(SERVER_URL, conn_max_age=60, conn_health_checks=True),
        "USER": OWNER,
        "PASSWORD": OWNER,
    },
}
# Another name lets two runs of the suite share a server.
TEST_DATABASE = os.environ.get("PGJOBS_TEST_DATABASE", "test_pgjobs")
DATABASES["default"]["TEST"] = {"NAME": TEST_DATABASE}
# The schema of all tables. Another one than `public` comes from a template.
SCHEMA = os.environ.get("PGJOBS_TEST_SCHEMA", "public")
if SCHEMA != "public":
    DATABASES["default"]["OPTIONS"] = {"options": f"-c search_path={SCHEMA}"}
    DATABASES["default"]["TEST"]["TEMPLATE"] = f"{OWNER}_template"
# Set for the workers that tests start: they work on the test's database, and need
# only the apps with tasks for them, which lets them start faster.
if os.environ.get("PGJOBS_IN_TEST_PROCESS"):
    DATABASES["default"]["NAME"] = TEST_DATABASE
    INSTALLED_APPS = ["pgjobs", "tests", "tests.features.durable"]
    ROOT_URLCONF = None
# Tests that run side by side have a database each; pytest-django calls it so.
elif side := os.environ.get("PYTEST_XDIST_WORKER"):
    TEST_DATABASE += f"_{side}"
# How a test's worker process is to connect, as JSON; also to a second database.
if connecting := os.environ.get("PGJOBS_TEST_CONNECTING"):
    DATABASES["default"].update(json.loads(connecting))
    DATABASES["other"] = {**DATABASES["default"]}
# Another database with a queue of its own (tests/databases/).
if second := os.environ.get("PGJOBS_TEST_SECOND"):
    DATABASES["eu"] = {**DATABASES["default"], "NAME": second}
# Whether everything goes through a pooler, and what goes around it (tests/pooler.py).
POOLER = os.environ.get("PGJOBS_TEST_POOLER", "")
DIRECT: dict = {}
if POOLER:
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
    SERVER_URL = os.environ["PGJOBS_TEST_DIRECT"]
    DIRECT = {**conninfo_to_dict(SERVER_URL), "user": OWNER, "password": OWNER}
    del DIRECT["dbname"]
# What a test's worker process is to have in PGJOBS, as JSON.
PGJOBS = json.loads(os.environ.get("PGJOBS_TEST_SETTINGS", "{}"))
# Any queue name is valid.
TASKS = {"default": {"BACKEND": "pgjobs.backends.PgJobsBackend", "QUEUES": []}}
if django.VERSION < (6, 0):
    INSTALLED_APPS = ["django_tasks", *INSTALLED_APPS]
ELEMENTS_SOURCE = (
    Path(__file__).resolve().parent.parent / "example_project/data/satellites.tle"
)
