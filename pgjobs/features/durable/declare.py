"""What tasks say when they wait: answers, and how other jobs have ended."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

MONTH = timedelta(days=30)  # for which a wait waits that says nothing else


@dataclass(frozen=True)
class Answer:
    """An answer as one of the ways in which `wait_for_first` may end.

    - `type`: what the answer is, as in `wait_for`.
    - `permission`, `title`, `anyone_with_link`: as in `wait_for`.
    """

    type: Any
    permission: str | None = None
    title: str = ""
    anyone_with_link: bool = False


class JobEnd(NamedTuple):
    """How another job has ended.

    - `id`: of the job.
    - `status`: SUCCESSFUL, FAILED or CANCELLED; GONE if the job was deleted.
    - `value`: what it returned, as read from its JSON.
    - `reason`: why it did not succeed.
    """

    id: int
    status: str
    value: Any
    reason: str
