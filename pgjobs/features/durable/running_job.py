"""What `current_job()` can do in a task that sleeps or waits."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any, NoReturn, TypeVar, overload

from ...conf import settings
from ...tasks.arguments import Stored
from ...tasks.registry import registry
from ..encryption.marking import marks
from . import queue
from .declare import MONTH, Answer, JobEnd
from .links import answer_url
from .waits import Waits
from .ways import answer_way, event_way, jobs_way, refuse_circle, several_ways

V = TypeVar("V")  # what a wait asks for
Time = float | timedelta | datetime
Event = str | tuple[str, Any]


class Waiting:
    """The calls of a running job that suspend it.

    They raise a BaseException, which the task must let through. Then the job holds
    nothing. When it goes on, the task runs again from its top, and each step, sleep and
    wait that is done gives its result. They raise InvalidStep where the job cannot be
    suspended, or where nothing could end the wait.

    Each call in a job needs another name, as steps do. How long it waits is stored at
    the first call.
    """

    id: int
    life: int
    task_name: str
    has_row = True  # False: it runs in a test without a database
    seal: Any  # of the feature for encryption, as the next one
    flowing: set[str]

    @cached_property
    def waits(self) -> Waits:
        return Waits(self)

    @cached_property
    def version(self) -> int:
        """The `version` of the task when the job was enqueued: one query."""
        return queue.version(settings.DATABASE, self.id) if self.has_row else 1

    @cached_property
    def seconds_left(self) -> float | None:
        """The seconds from here to its deadline, if it has one: one query."""
        return queue.seconds_left(settings.DATABASE, self.id) if self.has_row else None

    @property
    def first_life(self) -> int:
        """The life of which this one has kept steps, or itself: one query."""
        return queue.first_life(settings.DATABASE, self.id, self.life)

    def sleep(self, name: str, duration: Time) -> None:
        """Suspend the job once, for a time or until a moment.

        - `name`: of the sleep.
        - `duration`: seconds, a timedelta, or an aware datetime.
        """
        self.waits.sleep(name, duration)

    async def asleep(self, name: str, duration: Time) -> None:
        """Suspend the job once, from async code; see `sleep`."""
        await self.waits.await_(self.sleep, name, duration)

    @overload
    def wait_for(
        self,
        name: str,
        type: type[V],
        *,
        timeout: Time = ...,
        permission: str | None = ...,
        title: str = ...,
        anyone_with_link: bool = ...,
    ) -> V | None: ...

    # What is no class, such as `str | None` or `Literal["yes", "no"]`.
    @overload
    def wait_for(
        self,
        name: str,
        type: Any,
        *,
        timeout: Time = ...,
        permission: str | None = ...,
        title: str = ...,
        anyone_with_link: bool = ...,
    ) -> Any: ...

    def wait_for(
        self,
        name: str,
        type: Any,
        *,
        timeout: Time = MONTH,
        permission: str | None = None,
        title: str = "",
        anyone_with_link: bool = False,
    ) -> Any:
        """Ask, and suspend the job until somebody answers; return the answer.

        - `name`: of the wait, which `job.answer(name, ...)` gives.
        - `type`: of the answer: a dataclass, a pydantic model, `bool`, `str` and
          whatever else may be the hint of a parameter.
        - `timeout`: how long it waits: seconds, a timedelta, or an aware datetime.
        - `permission`: who may answer, such as "shop.approve_refund". Without it:
          "pgjobs.answer_job".
        - `title`: the question, for people.
        - `anyone_with_link`: whoever has the link of `answer_url` may answer, also
          without signing in, and without the permission.

        Returns None if nobody has answered in time.
        """
        answer = Answer(type, permission, title, anyone_with_link)
        return self.waits.wait(name, [answer_way(answer)], timeout)

    def answer_url(self, name: str) -> str:
        """Return the path of the page on which people answer, as `Job.answer_url`."""
        return answer_url(self.id, self.life, name)

    async def await_for(self, name: str, type: Any, **options: Any) -> Any:
        """Ask, from async code; see `wait_for`, which has the `options`."""
        return await self.waits.await_(partial(self.wait_for, **options), name, type)

    def wait_for_event(
        self,
        event: str,
        *,
        aggregate_id: Any = None,
        timeout: Time = MONTH,
        name: str | None = None,
    ) -> Any:
        """Suspend the job until an event is published; return the event.

        An event counts from when the job was enqueued, and each one once.

        - `event`: its name, or a pattern such as "order.*", which the option
          `waits_for` of the task must have.
        - `aggregate_id`: what the event is about. None: anything.
        - `timeout`: how long it waits: seconds, a timedelta, or an aware datetime.
        - `name`: of the wait; by default that of the event.

        Returns what `current_event()` does, or None if the time is over.
        """
        way = event_way(event, aggregate_id, self.waits_for)
        return self.waits.wait(event if name is None else name, [way], timeout)

    async def await_for_event(self, event: str, **options: Any) -> Any:
        """Wait for an event from async code; see `wait_for_event`."""
        return await self.waits.await_(partial(self.wait_for_event, **options), event)

    def wait_for_first(
        self,
        ways: Mapping[str, Event | Answer],
        *,
        timeout: Time = MONTH,
        name: str | None = None,
    ) -> tuple[str | None, Any]:
        """Suspend the job until the first of several events or answers is there.

        - `ways`: by labels of yours: the name of an event, `(event, aggregate_id)`, or
          an `Answer`, which `job.answer(label, ...)` gives.
        - `timeout`: how long it waits: seconds, a timedelta, or an aware datetime.
        - `name`: of the wait; by default the labels, joined.

        Returns the label and what came, or `(None, None)` if the time is over.
        """
        options = several_ways(ways, self.waits_for)
        name = ",".join(ways) if name is None else name
        return self.waits.wait(name, options, timeout) or (None, None)

    async def await_for_first(
        self, ways: Mapping[str, Event | Answer], **options: Any
    ) -> tuple[str | None, Any]:
        """Wait for the first of several from async code; see `wait_for_first`."""
        return await self.waits.await_(partial(self.wait_for_first, **options), ways)

    def wait_for_jobs(
        self, name: str, jobs: Iterable[Any], *, timeout: Time = MONTH
    ) -> list[JobEnd] | None:
        """Suspend the job until other jobs have ended; return how, in their order.

        - `name`: of the wait.
        - `jobs`: jobs or their ids.
        - `timeout`: how long it waits: seconds, a timedelta, or an aware datetime.

        Returns None if the time is over.
        """
        way = jobs_way(jobs)
        if self.has_row and not self.waits.is_done(name):
            refuse_circle(self.id, way)
        return self.waits.wait(name, [way], timeout)

    async def await_for_jobs(
        self, name: str, jobs: Iterable[Any], **options: Any
    ) -> list[JobEnd] | None:
        """Wait for other jobs from async code; see `wait_for_jobs`."""
        call = partial(self.wait_for_jobs, **options)
        return await self.waits.await_(call, name, jobs)

    def continue_as(self, /, *args: Any, **kwargs: Any) -> NoReturn:
        """Go on as another job of this task, the successor, with these arguments.

        The successor has no steps, and everything else of this job: queue, priority,
        lock, unique key, batch and follow-ups. What waits for this job waits for it.

        `args`, `kwargs`: as in a call of the task. It never returns. Raises
        InvalidArguments, and InvalidStep where the job cannot be suspended.
        """
        self.waits.go_on("continue_as", self.successor(args, kwargs))

    async def acontinue_as(self, /, *args: Any, **kwargs: Any) -> NoReturn:
        """Go on as another job, from async code; see `continue_as`."""
        stores = self.successor(args, kwargs)
        await self.waits.await_(self.waits.go_on, "acontinue_as", stores)
        raise AssertionError  # the line above raises what suspends the job

    def successor(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        task = registry.get(self.task_name)
        stored = task.signature.store(args, kwargs)
        keys = task.options.in_row
        if self.seal is not None:
            closed = task.options.close_for_successor(stored, self.seal)
            stored = Stored(closed.args, closed.kwargs)
            keys = {**keys, **marks(closed.mark)}
        return {**stored._asdict(), "keys": keys}

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The events for which its task may wait."""
        return registry.get(self.task_name).options.waits_for


METHODS = (Waiting,)
