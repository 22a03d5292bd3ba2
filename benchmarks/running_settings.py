"""The example project as its settings are, plus the tasks of a benchmark."""

import json
import os

from example.settings.development import *  # noqa: F403
from example.settings.development import DATABASES

DEBUG = False  # which keeps every query in memory
ALLOWED_HOSTS = ["testserver"]  # Django's test client, which looks at the pages
# How the jobs connect, as JSON.
DATABASES["default"].update(json.loads(os.environ.get("BENCHMARK_CONNECTING", "{}")))
PGJOBS = {"TASK_MODULES": [os.environ["BENCHMARK_TASKS"]]}
