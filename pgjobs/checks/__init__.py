"""System checks: they report what would not work before anything runs.

Importing this package registers them, and those of features.
"""

from ..features import modules
from . import databases, project, tasks, telemetry

__all__ = [
    "databases",
    "project",
    "tasks",
    "telemetry",
]

OF_FEATURES = [*modules("checks")]
