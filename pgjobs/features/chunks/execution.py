"""Runs one call for many jobs, in one slot; what becomes of each is its own."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from math import ceil, log2
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync, sync_to_async
from django.db import DatabaseError

from ... import signals
from ...base.plain_json import dump, load, result_text
from ...conf import settings
from ...exceptions import (
    ControlFlow,
    Fail,
    Interruption,
    InvalidArguments,
    InvalidStep,
    TaskTimeout,
)
from ...models.job import Job
from ...queue.claiming import ClaimedJob
from ...queue.recording import Outcome, Success, Unsuccessful
from ...queue.statements import array, execute_on
from ...reports.secrets import Hiding
from ...sql import statement
from ...tasks.hints import listed
from ...tasks.running_job import RunningJob
from ...tasks.sensitive import named_arguments
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
from .calls import Call, Chunk, Mark

if TYPE_CHECKING:
    from .members import ChunkSignature

logger = logging.getLogger("pgjobs.job")

MOST_MASKED = 8  # texts that are kept with and without what they hide
BEFORE = "Cancelled before it began."
NO_STEPS = (
    "A call of many jobs has no steps, sleeps or waits: they would be of one job. "
    "Enqueue a task of its own for what has several parts."
)


class HidingOfAll(Hiding):
    """Masks what the jobs of a call have in common, and what `own` masks of some.

    An error has the same texts for each job. To look in one for the values of thousands
    of jobs takes so long that it is done once.
    """

    is_encrypted = False  # whether any of the jobs has encrypted values

    def __init__(self, *common: Any):
        super().__init__(*common)
        self.hide_too(())

    def hide_too(self, own: Sequence[Callable[[str], str]]) -> None:
        self.own = own
        self.masked: dict[str, str] = {}  # the latest texts

    def __call__(self, text: str) -> str:
        found = self.masked.get(text)
        if found is None:
            found = text
            for each in self.own:
                found = each(found)
            found = super().__call__(found)
            if len(self.masked) >= MOST_MASKED:
                self.masked.clear()
            self.masked[text] = found
        return found


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

    members: "list[MemberExecution]" = []

    @property
    def first(self) -> RunningJob:
        """The running job of the first member."""
        return self.members[0].running

    def log(self, text: str) -> None:
        self.first.log(text)

    def progress(
        self, done: float, total: float | None = None, message: str = ""
    ) -> None:
        self.first.progress(done, total, message)

    @property
    def cancel_requested(self) -> bool:
        """Whether all jobs of the call were asked to stop."""
        return bool(self.members) and all(each.is_cancelled for each in self.members)

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


class OfMember(Execution):
    """Makes the running job of a member."""

    running_class = MemberJob


class MemberExecution(Execution):
    """The attempt of one job among the others of its call.

    Most functions look at the arguments alone. So `running` is made once it is asked
    for, and all else that members have in common belongs to the call.
    """

    running_class = MemberJob
    outcome: Outcome | None = None  # once it is certain
    mark: Mark | None = None  # what the function said of it
    has_begun = is_cancelled = False
    arguments: Any = None  # in the class that the hint of the chunk names

    def __init__(self, job: ClaimedJob, calling: "Calling"):
        self.job = job
        self.task = calling.task
        self.host = calling.host
        self.options = calling.options
        self.limit = calling.limit
        self.hide = calling.hide
        self.asks_features = job.results is not None or calling.options.prepares
        if self.asks_features:
            super().__init__(job, self.task, self.host, self.limit)

    @cached_property
    def running(self) -> RunningJob:  # type: ignore[override]
        """Whoever ends the call may ask for it while the function does."""
        own = OfMember(self.job, self.task, self.host, self.limit).running
        own.hide = self.hide
        made: RunningJob = vars(self).setdefault("running", own)
        if self.is_cancelled:  # `cancel` may not have seen it
            made.cancel_requested = True
        return made

    def cancel(self) -> None:
        """Let the function see that the job was asked to stop; from any thread."""
        self.is_cancelled = True
        if "running" in vars(self):
            self.running.cancel_requested = True

    def begin(self, signature: "ChunkSignature", named: Any = None) -> None:
        """Take the arguments; the outcome is there if the job cannot run.

        `named`: what its row has, if that was read with the rows of others.
        """
        if self.is_cancelled:
            self.outcome = unsuccessful(self.job, "CANCEL", BEFORE)
            return
        kwargs = signature.load_fitting(named) if type(named) is dict else None
        if kwargs is None:
            self.outcome = self.prepare()
            if self.outcome is not None:
                return
            kwargs = self.kwargs
        try:
            self.arguments = signature.made(kwargs)
            self.has_begun = True
        except InvalidArguments as error:
            self.outcome = unsuccessful(
                self.job, "FAIL", str(error), error, hide=self.hide
            )

    @property
    def is_open(self) -> bool:
        """Whether nothing was said yet of how the job ends."""
        return self.outcome is None and self.has_begun and not self.mark

    def of_mark(self) -> Outcome | None:
        """Return the outcome that the function has asked for by a mark."""
        mark = self.mark
        if mark is None:
            return None
        return self.succeeded(*mark) if isinstance(mark, tuple) else self.judged(mark)

    def succeeded(self, value: Any) -> Outcome:
        try:
            text = None if value is None else result_text(listed(value))
        except BaseException as error:  # noqa: BLE001  (a result's own methods run here)
            why = str(error) if isinstance(error, ValueError) else describe(error)
            return self.judged(Fail(f"The result cannot be stored: {why}."))
        if self.asks_features and self.running.seal is not None:  # it got what is so
            text = self.options.kept(self.running, text)
        return Success(self.job.id, self.job.lease_token, text)

    def judged(self, error: BaseException) -> Unsuccessful:
        """Return what an error means for this job.

        Who reports the error knows this job alone. The error may quote them all.
        """
        with suppress(AttributeError):  # of a class with slots
            error.pgjobs_hide = self.hide  # type: ignore[attr-defined]
        return self.ended_by(error)


class Calling(Execution):
    """A call of many jobs, in place of the execution of one.

    What it is beside says how a function is called: on a thread, or as a coroutine.
    """

    running_class = CallJob
    running: CallJob  # type: ignore[assignment]

    def __init__(self, job: ClaimedJob, task: Any, *others: Any):
        super().__init__(job, task, *others)
        call = job.call
        jobs = call.members
        by_place = [each for each in jobs if each.args != "[]"]  # rows of SQL alone
        # The function knows the secrets of all, and its errors may quote any of them.
        self.common = self.hide = self.running.hide = HidingOfAll(
            self.options.sensitive,
            *[each.kwargs for each in jobs],
            *(partial(named_arguments, each.task, each.args) for each in by_place),
            *{each.meta for each in jobs},
        )
        self.members = [MemberExecution(each, self) for each in jobs]
        self.asks_features = any(member.asks_features for member in self.members)
        self.running.members = self.members
        call.execution = self
        for lease_token in call.cancelled:
            self.tell_cancelled(call.places[lease_token])
        self.error: BaseException | None = None  # the last that the function raised
        self.kept: list[Part] = []  # what failed without having been called alone

    # From outside, on any thread

    def tell_cancelled(self, place: int) -> None:
        self.members[place].cancel()

    def marked(self, place: int) -> Outcome | None:
        member = self.members[place]
        return member.outcome or member.of_mark()

    # Around the calls

    def prepare(self) -> Unsuccessful | None:
        """Decode all arguments; return an outcome if none of the jobs can run."""
        assert self.task is not None
        signature: Any = self.task.signature
        own = []  # what masks what they get of jobs before them
        for member, named in zip(self.members, self.read(), strict=True):
            usual = member.hide
            member.begin(signature, named)
            if member.hide is not usual:
                own.append(member.hide)
        if self.asks_features:
            self.hide_own(own)
        if any(member.is_open for member in self.members):
            return None
        outcome: Any = self.members[0].outcome
        return outcome

    def read(self) -> Sequence[Any]:
        """Return the JSON arguments of each member, or None to read its own.

        To read those of all as one text takes a third of the time.
        """
        if not self.asks_features and all(
            each.job.args == "[]" for each in self.members
        ):
            try:
                listed = ",".join([each.job.kwargs for each in self.members])
                found = load(f"[{listed}]")
                if len(found) == len(self.members):
                    return found
            except (ValueError, RecursionError):
                pass  # each member that can be read is
        return [None] * len(self.members)

    def hide_own(self, own: list[Any]) -> None:
        """Mask what some members get of jobs before them in the texts of all."""
        self.common.hide_too(own)
        for member in self.members:
            member.hide = member.running.hide = self.common
            self.common.is_encrypted |= member.running.seal is not None
        seals = (member.running.seal for member in self.members)
        self.running.seal = next(filter(None, seals), None)  # for reports of errors

    def announce_others(self) -> None:
        """Say that the members have started, beside the first."""
        if not is_announced():
            return
        for member in self.members[1:]:
            if member.is_open:
                announce_started(member.job)

    def each(self, outcome: Outcome) -> Iterable[Outcome]:
        """Return the outcome of each member; of those without one, as this one."""
        ended = [
            member.outcome or self.of_member(member, outcome) for member in self.members
        ]
        self.job.call.close(ended)
        return ended

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


def is_announced() -> bool:
    """Whether anybody hears that jobs have started."""
    heard = signals.job_started.has_listeners(Job)
    return heard or logger.isEnabledFor(logging.DEBUG)


class Part:
    """The jobs of one call of the function."""

    def __init__(self, members: list[MemberExecution]):
        self.members = members
        self.error: BaseException | None = None

    @property
    def chunk(self) -> Chunk[Any]:
        return Chunk([Call(each.arguments, each) for each in self.members])

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
            if member.has_begun:
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
