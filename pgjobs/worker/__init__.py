"""The worker: one process of `manage.py runjobs`."""

from .loop import ExitCode, Loop
from .options import WorkerOptions

__all__ = ["ExitCode", "Loop", "WorkerOptions"]
