"""Which columns the page of a job shows, and in which order."""

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext_lazy as _

from ..models import Job

# Fields of the page, by the columns without which the page skips them.
TIMES = {
    "enqueued_at": "enqueued",
    "run_after": "due",
    "expires_at": "expires",
    "cancel_requested_at": "asked_to_cancel",
    "started_at": "started",
    "last_attempted_at": "last_attempted",
    "finished_at": "finished",
}
ASSIGNMENT = {"worker_id": "worker_link", "batch_id": "batch_link"}
COUNTERS = {name: name for name in ("crashes", "timeout", "process_units")}
KEY_FIELDS = (("masked_unique_key", "unique_for", "unique_until", "holds_key"),)
INTERNALS = (
    ("max_attempts", "max_crashes", "attempts", "failures"),
    ("life", "lease_token"),
)
LATER = "pgjobs-later"  # the class of fieldsets that come behind the attempts


def fieldsets(
    job: Job, may_see_arguments: bool
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the groups of fields, without the columns that hold nothing.

    Keys are made of arguments, so only who may see these sees them.
    """
    has_key = job.unique_key and may_see_arguments
    groups = (
        (None, state_fields(job), ()),
        (_("Times"), filled(job, TIMES), (LATER,)),
        (_("Uniqueness"), KEY_FIELDS if has_key else (), (LATER,)),
        (_("Internals"), INTERNALS, ("collapse",)),
    )
    for title, fields, classes in groups:
        if fields:
            yield title, {"fields": fields, "classes": classes}


def state_fields(job: Job) -> tuple:
    """Return the fields at the top of the page, which say how the job does."""
    return (
        "status_word",
        *(("why",) if job.why else ()),
        *(("full_reason",) if job.reason_start else ()),
        "task_and_state",
        ("queue", "priority", *filled(job, ASSIGNMENT)),
        ("tries", *filled(job, COUNTERS)),
    )


def filled(job: Job, fields: dict[str, str]) -> tuple[str, ...]:
    """Return the fields whose columns hold something."""
    return tuple(field for column, field in fields.items() if getattr(job, column))
