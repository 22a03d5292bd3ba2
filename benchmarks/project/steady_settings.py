"""The project with a retention that the benchmark chooses."""

import json
import os

from .settings import *  # noqa: F403

PGJOBS = {"RETENTION": json.loads(os.environ["BENCHMARK_OPTIONS"])["retention"]}
