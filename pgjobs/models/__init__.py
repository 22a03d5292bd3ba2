"""The tables of the queue and of its features, and the verbs of their rows."""

# `loaddata` loads the tables in this order. A trigger writes the prerequisites of a job
# that is loaded, and it bears those that are there already.
from ..features.dependencies.tables import Prerequisite  # isort: split

from ..features.desk.tables import (
    Acknowledgement,
    CodeVersion,
    EndedWorker,
    ErrorGroup,
    Figure,
)
from .admission import Note, Rate
from .attempt import Attempt
from .audit_entry import AuditEntry
from .batch import Batch
from .definition import TaskDefinition
from .job import Job
from .job_choices import Status
from .predecessor import Predecessor
from .progress import Progress
from .queue import Queue
from .worker import Worker

# Then those of the features, which refer to them.
# isort: split
from ..features.definitions.tables import Manifest, ManifestEntry
from ..features.events.tables import Delivery, Event, Subscription
from ..features.moving.tables import Move, Parcel
from ..features.overrides.tables import Override
from ..features.schedules.tables import Schedule, Tick
from ..features.steps.tables import Step

# An awaited event refers to its event.
# isort: split
from ..features.durable.tables import Answer, AwaitedEvent, Wait, WaitNote

__all__ = [
    "Acknowledgement",
    "Answer",
    "Attempt",
    "AuditEntry",
    "AwaitedEvent",
    "Batch",
    "CodeVersion",
    "Delivery",
    "EndedWorker",
    "ErrorGroup",
    "Event",
    "Figure",
    "Job",
    "Manifest",
    "ManifestEntry",
    "Move",
    "Note",
    "Override",
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
    "Wait",
    "WaitNote",
    "Worker",
]
