"""System checks: they report what would not work before anything runs.

Importing this package registers them.
"""

from . import (
    configuration,
    databases,
    declarations,
    dependencies,
    mode,
    references,
    tasks,
    telemetry,
)

__all__ = [
    "configuration",
    "databases",
    "declarations",
    "dependencies",
    "mode",
    "references",
    "tasks",
    "telemetry",
]
