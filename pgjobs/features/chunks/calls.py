"""What the function of a task with `chunk` gets: a `Call` for each of its jobs."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ...exceptions import Cancel, Fail, Retry

if TYPE_CHECKING:
    from ...tasks.running_job import RunningJob
    from .execution import MemberExecution

# What was said of a job: an error as a task raises it, or a value in a tuple.
Mark = Fail | Cancel | Retry | tuple[Any]
Args = TypeVar("Args", covariant=True)


class Call(Generic[Args]):
    """One job of a chunk.

    - `args`: its arguments, in the class that the hint of the chunk names.
    - `job`: what `current_job()` would return in it, without steps and waits.

    The methods say how the job ends. Of several the last one counts. A job for which
    none was called succeeds when the function returns.
    """

    __slots__ = ("_member", "args")

    def __init__(self, args: Args, member: "MemberExecution"):
        self.args = args
        self._member = member

    def __repr__(self) -> str:
        # Not the arguments: they may be secret.
        return f"<Call of job {self._member.job.id}>"

    @property
    def job(self) -> "RunningJob":
        return self._member.running

    @property
    def cancelled(self) -> bool:
        """Whether the job was asked to stop while the function runs."""
        return self._member.is_cancelled

    def succeed(self, value: Any = None) -> None:
        """Let the job succeed with this result, which must be JSON."""
        self._member.mark = (value,)

    def retry(self, after: float | timedelta | None = None, reason: str = "") -> None:
        """Fail this attempt of the job, and try again within its `max_attempts`.

        - `after`: seconds or a timedelta to wait. None asks the task's backoff.
        - `reason`: a text for people, which the job shows.

        Raises ValueError if `after` is no duration.
        """
        self._member.mark = Retry(after, reason)

    def fail(self, reason: str = "") -> None:
        """End the job FAILED, for a reason."""
        self._member.mark = Fail(reason)

    def cancel(self, reason: str = "") -> None:
        """End the job CANCELLED, for a reason."""
        self._member.mark = Cancel(reason)


class Chunk(Sequence[Call[Args]]):
    """The jobs of one call, first the one that would have started first."""

    def __init__(self, calls: Sequence[Call[Args]]):
        self.calls = tuple(calls)

    def __repr__(self) -> str:
        return f"<Chunk of {len(self.calls)} jobs>"

    def __len__(self) -> int:
        return len(self.calls)

    @overload
    def __getitem__(self, place: int) -> Call[Args]: ...

    @overload
    def __getitem__(self, place: slice) -> "Sequence[Call[Args]]": ...

    def __getitem__(self, place: int | slice) -> Any:
        return self.calls[place]
