"""The settings of tests in a copy without features: see `core_alone`."""

import sys

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as ALL_APPS
from tests.settings import ROOT_URLCONF as ALL_PAGES

# An editable install would offer from the checkout what the copy lacks.
sys.meta_path[:] = [
    finder
    for finder in sys.meta_path
    if "Editable" not in getattr(finder, "__name__", type(finder).__name__)
]
# The example uses features, and so do tasks of django.tasks.
OF_FEATURES = {
    *("example", "passes", "converter", "shop", "django_tasks"),
    "tests.features.durable",
}
INSTALLED_APPS = [each for each in ALL_APPS if each not in OF_FEATURES]
ROOT_URLCONF = ALL_PAGES and "tests.urls_without_features"  # workers have none
TASKS: dict = {}
