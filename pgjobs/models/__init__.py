"""The queue: its tables, and every statement that changes a job's status."""

from .attempt import Attempt
from .job import Job, Status
from .progress import Progress
from .step import Step
from .worker import Worker

__all__ = ["Attempt", "Job", "Progress", "Status", "Step", "Worker"]
