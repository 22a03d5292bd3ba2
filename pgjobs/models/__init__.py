"""The tables of the queue, and the verbs of their rows."""

# `loaddata` loads the tables in this order. A trigger writes the prerequisites of a job
# that is loaded, and it bears those that are there already.
from .prerequisite import Prerequisite  # isort: split

from .admission import Note, Rate
from .attempt import Attempt
from .audit_entry import AuditEntry
from .batch import Batch
from .definition import TaskDefinition
from .error_group import CodeVersion, ErrorGroup
from .event import Delivery, Event
from .figure import Figure
from .job import Job
from .job_choices import Status
from .manifest import Manifest, ManifestEntry
from .move import Move, Parcel
from .predecessor import Predecessor
from .progress import Progress
from .queue import Queue
from .schedule import Schedule
from .step import Step
from .subscription import Subscription
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
    "Manifest",
    "ManifestEntry",
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
