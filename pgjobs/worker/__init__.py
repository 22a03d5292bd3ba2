"""The worker: one process of `manage.py runjobs`."""

from .exit_code import ExitCode
from .loop import Loop
from .options import WorkerOptions

__all__ = ["ExitCode", "Loop", "WorkerOptions"]
