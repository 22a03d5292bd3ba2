"""The mark of a job, in its row."""

from typing import Any

from ...base.mask_names import MASKED, RESULT
from ...base.plain_json import dump_checked
from ...conf import settings
from ...queue.statements import execute_on
from ...sql import statement
from .sealing import MARK


def marks(mark: dict[str, Any]) -> dict[str, Any]:
    """Return what `Job.keys` says: whatever shows the job masks these values."""
    return {MARK: mark, MASKED: [*mark["names"], RESULT]}


def store_mark(job_id: int, lease_token: int, mark: dict[str, Any]) -> bool:
    """Mark a running job that was inserted without; return whether it is ours."""
    parameters = {
        "marks": dump_checked(marks(mark)),
        "job_id": job_id,
        "lease_token": lease_token,
    }
    ((stored,),) = execute_on(settings.DATABASE)(
        statement("mark_encrypted"), parameters
    )
    return bool(stored)
