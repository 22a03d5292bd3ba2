"""The admin: jobs and what may be done to them, and all that makes or moves them.

Importing this package registers its pages, and those of features.
"""

from ..features import modules
from .jobs import JobAdmin
from .queues import QueueAdmin
from .sites import DatabaseSite
from .workers import WorkerAdmin

__all__ = [
    "DatabaseSite",
    "JobAdmin",
    "QueueAdmin",
    "WorkerAdmin",
]

OF_FEATURES = [*modules("admin")]
