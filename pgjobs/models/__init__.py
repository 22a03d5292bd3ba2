"""The tables of the queue, and the verbs of their rows."""

from .admission import Note, Rate
from .attempt import Attempt
from .audit_entry import AuditEntry
from .batch import Batch
from .definition import TaskDefinition
from .error_group import CodeVersion, ErrorGroup
from .event import Delivery, Event, Subscription
from .figure import Figure
from .job import Job
from .job_choices import Status
from .move import Move, Parcel
from .predecessor import Predecessor
from .prerequisite import Prerequisite
from .progress import Progress
from .queue import Queue
from .schedule import Schedule
from .step import Step
from .tick import Tick
from .worker import Worker

__all__ = [
    "Attempt",
    "AuditEntry",
    "Batch",
    "CodeVersion",
    "Delivery",
    "ErrorGroup",
    "Event",
    "Figure",
    "Job",
    "Move",
    "Note",
    "Parcel",
    "Predecessor",
    "Prerequisite",
    "Progress",
    "Queue",
    "Rate",
    "Schedule",
    "Status",
    "Step",
    "Subscription",
    "TaskDefinition",
    "Tick",
    "Worker",
]
