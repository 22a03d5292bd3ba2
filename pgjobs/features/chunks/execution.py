"""Runs one call for many jobs, in one slot; what becomes of each is its own."""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from math import ceil, log2
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync, sync_to_async
from django.db import DatabaseError

from ...base.plain_json import dump, result_text
from ...conf import settings
from ...exceptions import (
    ControlFlow,
    Fail,
    Interruption,
    InvalidArguments,
    InvalidStep,
    TaskTimeout,
)
from ...queue.claiming import ClaimedJob
from ...queue.recording import Outcome, Success, Unsuccessful
from ...queue.statements import array, execute_on
from ...reports.secrets import Hiding
from ...sql import statement
from ...tasks.hints import listed
from ...tasks.running_job import RunningJob
from ...tasks.sensitive import named_arguments
from ...tasks.task import Task
from ...worker.slots.execution import (
    CoroutineExecution,
    Execution,
    ThreadExecution,
    announce_started,
)
from ...worker.slots.interruption import (
    CoroutineStopper,
    ThreadStopper,
    run_stoppable,
)
from ...worker.slots.outcomes import describe, unsuccessful
from .calls import Call, Chunk

if TYPE_CHECKING:
    from .members import ChunkSignature

logger = logging.getLogger("pgjobs.job")

BEFORE = "Cancelled before it began."
NO_STEPS = (
    "A call of many jobs has no steps, sleeps or waits: they would be of one job. "
    "Enqueue a task of its own for what has several parts."
)


class HidingOfAll(Hiding):
    """Masks what the jobs of a call have in common, and what `own` masks of some."""

    own: Sequence[Any] = ()

    def __call__(self, text: str) -> str:
        for each in self.own:
            text = each(text)
        return super().__call__(text)


class MemberJob(RunningJob):
    """One job of a call; `call.job` returns it."""

    @property
    def steps(self) -> Any:
        raise InvalidStep(NO_STEPS)

    @property
    def waits(self) -> Any:
        raise InvalidStep(NO_STEPS)


class CallJob(MemberJob):
    """What `current_job()` returns in a call: what all of its jobs have in common.

    Its log and its progress are stored with the first job.
    """

    first: RunningJob  # of the members
    members: "list[MemberExecution]" = []

    def log(self, text: str) -> None:
        self.first.log(text)

    def progress(
        self, done: float, total: float | None = None, message: str = ""
    ) -> None:
        self.first.progress(done, total, message)

    @property
    def cancel_requested(self) -> bool:
        """Whether all jobs of the call were asked to stop."""
        return bool(self.members) and all(
            each.running.cancel_requested for each in self.members
        )

    @cancel_requested.setter
    def cancel_requested(self, value: bool) -> None:
        """Ignore it: each member has its own."""

    def of_one(self, name: str) -> Any:
        raise RuntimeError(
            f"current_job().{name} would be of one job, and this call has "
            f"{len(self.members)}: use call.job.{name} of each call in the chunk."
        )

    key = property(partial(of_one, name="key"))  # type: ignore[assignment]
    batch = property(partial(of_one, name="batch"))  # type: ignore[assignment]
    event = property(partial(of_one, name="event"))  # type: ignore[assignment]


class MemberExecution(Execution):
    """The attempt of one job among the others of its call."""

    running_class = MemberJob

    def __init__(self, job: ClaimedJob, task: Task, host: Any):
        super().__init__(job, task, host, None)
        self.outcome: Outcome | None = None  # once it is certain
        self.call: Call[Any] | None = None  # unless it could not begin

    def begin(self, signature: "ChunkSignature") -> None:
        """Decode the arguments; the outcome is there if the job cannot run."""
        self.outcome = self.prepare()
        if self.outcome is None and self.running.cancel_requested:
            self.outcome = unsuccessful(self.job, "CANCEL", BEFORE)
        if self.outcome is None:
            try:
                self.call = Call(signature.made(self.kwargs), self.running)
            except InvalidArguments as error:
                self.outcome = unsuccessful(
                    self.job, "FAIL", str(error), error, hide=self.hide
                )

    @property
    def is_open(self) -> bool:
        """Whether nothing was said yet of how the job ends."""
        return self.outcome is None and self.call is not None and not self.call.mark

    def of_mark(self) -> Outcome | None:
        """Return the outcome that the function has asked for by a mark."""
        mark = self.call.mark if self.call else None
        if mark is None:
            return None
        return self.succeeded(*mark) if isinstance(mark, tuple) else self.judged(mark)

    def succeeded(self, value: Any) -> Outcome:
        try:
            text = result_text(listed(value))
        except BaseException as error:  # noqa: BLE001  (a result's own methods run here)
            why = str(error) if isinstance(error, ValueError) else describe(error)
            return self.judged(Fail(f"The result cannot be stored: {why}."))
        if self.running.seal is not None:  # it has got what is encrypted
            text = self.options.kept(self.running, text)
        return Success(self.job.id, self.job.lease_token, text)

    def judged(self, error: BaseException) -> Unsuccessful:
        """Return what an error means for this job."""
        return self.ended_by(error)


class Calling(Execution):
    """A call of many jobs, in place of the execution of one.

    What it is beside says how a function is called: on a thread, or as a coroutine.
    """

    running_class = CallJob
    running: CallJob  # type: ignore[assignment]

    def __init__(self, job: ClaimedJob, task: Any, *others: Any):
        super().__init__(job, task, *others)
        host = self.host
        call = job.call
        self.members = [MemberExecution(each, task, host) for each in call.members]
        self.asks_features = any(member.asks_features for member in self.members)
        self.running.members = self.members
        self.running.first = self.members[0].running
        for member in self.members:
            member.limit = self.limit
        call.execution = self
        for lease_token in call.cancelled:
            self.tell_cancelled(call.places[lease_token])
        self.error: BaseException | None = None  # the last that the function raised
        self.kept: list[Part] = []  # what failed without having been called alone

    # From outside, on any thread

    def tell_cancelled(self, place: int) -> None:
        self.members[place].running.cancel_requested = True

    def marked(self, place: int) -> Outcome | None:
        member = self.members[place]
        return member.outcome or member.of_mark()

    # Around the calls

    def prepare(self) -> Unsuccessful | None:
        """Decode all arguments; return an outcome if none of the jobs can run."""
        assert self.task is not None
        signature: Any = self.task.signature
        own = []  # what masks what they get of jobs before them
        for member in self.members:
            usual = member.hide
            member.begin(signature)
            if member.hide is not usual:
                own.append(member.hide)
        self.hide_all(own)
        seals = (member.running.seal for member in self.members)
        self.running.seal = next(filter(None, seals), None)  # for reports of errors
        if any(member.is_open for member in self.members):
            return None
        outcome: Any = self.members[0].outcome
        return outcome

    def hide_all(self, own: list[Any]) -> None:
        """Mask in what is stored with one job the secrets of the others, too.

        The function knows them all, and its errors may quote any of them. `own`: what
        masks more for some.
        """
        jobs = [member.job for member in self.members]
        hide = HidingOfAll(
            self.options.sensitive,
            *(job.kwargs for job in jobs),
            *(partial(named_arguments, job.task, job.args) for job in jobs),
            *{job.meta for job in jobs},
        )
        hide.own = own
        execution: Any
        for execution in (self, *self.members):
            execution.hide = execution.running.hide = hide

    def announce_others(self) -> None:
        """Say that the members have started, beside the first."""
        for member in self.members[1:]:
            if member.is_open:
                announce_started(member.job)

    def each(self, outcome: Outcome) -> Iterable[Outcome]:
        """Return the outcome of each member; of those without one, as this one."""
        for member in self.members:
            yield self.of_member(member, outcome)

    def of_member(self, member: MemberExecution, outcome: Outcome) -> Outcome:
        found = member.outcome or member.of_mark()
        if found is None and isinstance(outcome, Unsuccessful):
            job = member.job
            found = outcome._replace(id=job.id, lease_token=job.lease_token)
        return found or outcome

    def ended_by(self, error: BaseException) -> Unsuccessful:
        """Let the error end what has no outcome yet; return one for the call."""
        for member in self.members:
            if member.outcome is None:
                member.outcome = member.of_mark() or member.judged(error)
        return super().ended_by(error)

    def given_up(self) -> Unsuccessful:
        where = f"It did not stop, and was here:\n{self.where()}"
        for member in self.members:
            if member.is_open:
                outcome = member.judged(TaskTimeout())
                text = f"{where}\n{outcome.traceback}"
                member.outcome = outcome._replace(traceback=text)
        return super().given_up()

    # The calls: one, or more if it is bisected

    @cached_property
    def bisects(self) -> bool:
        return self.options.on_chunk_error == "bisect"

    def parts(self) -> Iterator["Part"]:
        """Yield what to call; after a failure both halves, and then their halves.

        If none of as many calls succeeds as find one guilty job, the rest fails with
        the last error: then it is not the jobs that are guilty.
        """
        whole = [member for member in self.members if member.is_open]
        most = 1 + 2 * ceil(log2(len(whole)))
        number, has_succeeded = 0, False
        left = deque([whole])
        while left:
            members = [member for member in left.popleft() if member.is_open]
            if not members:
                continue
            part = Part(members)
            number += 1
            yield part
            if part.error is None:
                has_succeeded = True
                continue
            self.error = part.error
            if self.may_halve(part):
                middle = len(members) // 2
                left += [members[:middle], members[middle:]]
            else:
                part.close(part.error)
            if number >= most and not has_succeeded and left:
                self.fail_rest(left, part.error)
                return

    def may_halve(self, part: "Part") -> bool:
        """Whether one of the jobs may be guilty of the error, and not all."""
        is_meant = isinstance(part.error, ControlFlow | Interruption)
        return self.bisects and len(part.members) > 1 and not is_meant

    def fail_rest(
        self, left: Iterable[list[MemberExecution]], error: BaseException
    ) -> None:
        """Fail the members of what is left, which stays in its parts."""
        self.kept = [
            Part([each for each in members if each.is_open]) for members in left
        ]
        for part in self.kept:
            part.close(error, together=True)

    def keep_parts(self) -> None:
        """Store in which part each member failed, for its next attempt."""
        members = [
            (each, n) for n, part in enumerate(self.kept) for each in part.members
        ]
        if not members:
            return
        parameters = {
            "ids": array(each.job.id for each, _ in members),
            "lease_tokens": array(each.job.lease_token for each, _ in members),
            "parts": dump([f"{self.job.lease_token}/{n}" for _, n in members]),
        }
        try:
            execute_on(settings.DATABASE)(statement("keep_parts"), parameters)
        except DatabaseError:
            logger.exception("A call is not kept in parts for the next attempt")

    def finish(self) -> Outcome:
        """Return the outcome of the first job; raise what the function last raised."""
        if self.error is not None:
            raise self.error
        first = self.members[0]
        outcome = first.outcome or first.of_mark()
        assert outcome is not None
        return outcome


class Part:
    """The jobs of one call of the function."""

    def __init__(self, members: list[MemberExecution]):
        self.members = members
        self.error: BaseException | None = None

    @property
    def chunk(self) -> Chunk[Any]:
        return Chunk([each.call for each in self.members if each.call is not None])

    def close(self, error: BaseException, together: bool = False) -> None:
        """Let the error end the members of which nothing was said.

        `together`: they are tried again at the same time, to share a call.
        """
        delay: float | None = None
        for member in self.members:
            if member.is_open:
                outcome = member.judged(error)
                if together and outcome.verdict == "RETRY":
                    delay = outcome.delay if delay is None else delay
                    outcome = outcome._replace(delay=delay)
                member.outcome = outcome

    def returned(self, value: Any) -> None:
        """Let the members succeed, each with its part of a list."""
        if value is None:
            values: Sequence[Any] = [None] * len(self.members)
        elif isinstance(value, list) and len(value) == len(self.members):
            values = value
        else:
            return self.close(Fail(misfit(value, len(self.members))))
        for member, each in zip(self.members, values, strict=True):
            if member.is_open:
                member.outcome = member.succeeded(each)
        return None


def misfit(value: Any, number: int) -> str:
    """Return why a value cannot be the results of so many jobs."""
    got = type(value).__name__
    if isinstance(value, list):
        got = f"a list of {len(value)}"
    return (
        f"The function returned {got} for a chunk of {number}: return a list with the "
        "result of each, or None, or say call.succeed(value)."
    )


class ThreadCalling(Calling, ThreadExecution):
    """A call of a plain function."""

    def outcome(self) -> Outcome:
        self.announce_others()
        assert self.task is not None
        for part in self.parts():
            self.stopper = ThreadStopper()
            self.host.began(self)
            body = partial(self.task.function, part.chunk)
            try:
                value = run_stoppable(self.stopper, body)
            except BaseException as error:  # noqa: BLE001  (SystemExit, too)
                part.error = error
            else:
                part.returned(value)
        self.keep_parts()
        return self.finish()


class CoroutineCalling(Calling, CoroutineExecution):
    """A call of a coroutine function."""

    def read_before(self) -> Iterator[str]:
        return iter(())  # each member has its own

    async def outcome(self) -> Outcome:
        await sync_to_async(self.look_up)()
        for part in self.parts():
            self.stopper = CoroutineStopper(self.event_loop.loop)
            self.host.began(self)
            self.args, self.kwargs = (part.chunk,), {}
            try:
                value = await self.call()
            except BaseException as error:  # noqa: BLE001  (SystemExit, too)
                part.error = error
            else:
                part.returned(value)
        if self.kept:
            await sync_to_async(self.keep_parts)()
        return self.finish()

    def look_up(self) -> None:
        """Read what the event loop could not ask for later."""
        self.announce_others()
        for member in self.members:
            if member.call is not None:
                for name in CoroutineExecution.read_before(member):  # type: ignore[arg-type]
                    getattr(member.running, name)


class CallerCalling(Calling):
    """A call that its caller waits for; `CallerExecution` stands beside it."""

    def outcome(self) -> Outcome:
        self.announce_others()
        assert self.task is not None
        function = self.task.function
        if self.task.is_async:
            function = async_to_sync(function)
        for part in self.parts():
            self.host.began(self)
            try:
                value = function(part.chunk)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  (SystemExit, too)
                part.error = error
            else:
                part.returned(value)
        self.keep_parts()
        return self.finish()


CALLS = {ThreadExecution: ThreadCalling, CoroutineExecution: CoroutineCalling}
