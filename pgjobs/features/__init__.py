"""The features: each a folder of its own above the core, which runs without them.

Only this module knows all of them. The core asks it for what features bring.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

# In the order in which they bring things. A new feature is a folder, and a name here.
FEATURES: tuple[str, ...] = (
    "definitions",
    "schedules",
    "events",
    "dependencies",
    "units",
    "batches",
    "encryption",
    "results",
    "follow_ups",
    "durable",
    "desk",
    "django_tasks",
    "testing",
    "importing",
    "moving",
    "operating",
    "public_status",
    "roles",
    "standstill",
    "steps",
    "exporters",
    "http",
    "keeping",
    "audit",
    "overrides",
    "chunks",
    "isolation",
    "job_pages",
    "workers",
)


@cache
def modules(name: str) -> tuple[ModuleType, ...]:
    """Return the module of this name of each feature that has one."""
    paths = (f"{__name__}.{feature}.{name}" for feature in FEATURES)
    return tuple(import_module(path) for path in paths if find_spec(path))


def entries(name: str, attribute: str) -> Iterator[Any]:
    """Yield what features list by an attribute in their module of this name."""
    for module in modules(name):
        yield from getattr(module, attribute, ())
