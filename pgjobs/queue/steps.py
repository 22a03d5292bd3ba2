"""Steps: the parts of a job that are done, and their results."""

from typing import NamedTuple

from ..sql import statement
from .statements import execute_on

LONGEST_NAME = 200


class Marked(NamedTuple):
    """Whether the step was marked, and whether the job still has its lease token."""

    is_owner: bool
    is_written: bool


def results_of(database: str, job_id: int, life: int) -> dict[str, str | None]:
    """Return the results, as JSON text, of the steps done in this life, by name."""
    rows = execute_on(database)(statement("steps"), {"job_id": job_id, "life": life})
    return dict(rows)  # type: ignore[arg-type]


def mark(
    database: str, job_id: int, lease_token: int, name: str, return_value: str | None
) -> Marked:
    """Note that a step is done, in the caller's transaction if there is one."""
    parameters = {
        "job_id": job_id,
        "lease_token": lease_token,
        "name": name,
        "return_value": return_value,
    }
    (row,) = execute_on(database)(statement("mark_step"), parameters)
    return Marked._make(row)
