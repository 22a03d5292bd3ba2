"""The settings of the tests with the app of the suite."""

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES, INSTALLED_APPS, TASKS

INSTALLED_APPS = ["django_tasks_conformance", *INSTALLED_APPS]
TASKS["default"]["QUEUES"] = ["default", "other"]
# Two databases for the code, one for the server.
DATABASES["second"] = {**DATABASES["default"]}
