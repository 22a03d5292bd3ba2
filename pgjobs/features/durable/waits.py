"""How a running job sleeps and waits: each wait is a step, which others end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, NoReturn

from asgiref.sync import sync_to_async

from ...base.moments import EARLIEST, LATEST, aware
from ...base.plain_json import check_json, shortened
from ...conf import settings
from ...exceptions import InvalidStep, LeaseLost, Suspended, non_negative_seconds
from ...tasks.option_checks import has_no_zone
from ..encryption.sealing import step
from ..steps.running_job import in_a_loop, inside
from . import queue
from .ways import AnswerWay, EventWay, Way

CONTINUE_AS = "continue_as"  # the statement that stores a successor


class Waits:
    """The sleeps and waits of one stretch of a job: what runs between two of them."""

    def __init__(self, job: Any):
        self.job = job
        self.lock = Lock()
        self.is_busy = False  # a call waits for the database
        self.is_awaited = False  # so does one of async code
        self.asked: dict[str, str] = {}  # the wait that asks, by the answer's name

    def sleep(self, name: str, duration: float | timedelta | datetime) -> None:
        """See `Waiting.sleep`."""
        stores = {"name": name, **time_of("duration", duration)}
        with self.one_call(name):
            if not self.job.steps.is_done(name):
                raise self.suspend(f"It sleeps: {name}.", stores)

    def wait(self, name: str, ways: list[Way], timeout: Any) -> Any:
        """Return what the wait ended with, or None if its time is over."""
        with self.one_call(name):
            self.refuse_asked(name, ways)
            # What the steps are comes with the first look at the wait.
            if self.job.steps.is_unread or not self.job.steps.is_done(name):
                self.take(name, ways, timeout)
            return self.read(name, ways)

    def refuse_asked(self, name: str, ways: list[Way]) -> None:
        """Refuse what an earlier wait has asked: its answer would be taken again."""
        for way in ways:
            if isinstance(way, EventWay):
                self.job.refuse_shown("aggregate_id", way.aggregate_id or "")
            answer = way.label or name
            if way.kind == "answer" and self.asked.setdefault(answer, name) != name:
                raise InvalidStep(
                    f"Answer {answer!r} was asked before in this attempt, and counts "
                    "once. Give each a name or label of its own, in a loop with the "
                    f"number of the round: {in_a_loop(answer)}."
                )

    def is_done(self, name: str) -> bool:
        return name in self.job.steps.load()

    def go_on(self, name: str, stores: dict[str, Any]) -> NoReturn:
        """See `Waiting.continue_as`."""
        with self.alone(name):
            self.job.ends()
            raise self.suspend("It goes on as another job.", stores, CONTINUE_AS)

    def read(self, name: str, ways: list[Way]) -> Any:
        """Return what the task gets of what the step has. None: the time is over."""
        stored = self.job.steps.result(name)
        if stored is None:
            return None
        try:
            if ways[0].label is None:
                value = ways[0].read(self.job, stored)
                if ways[0].kind == "jobs":
                    self.job.seal_ends(name)
                return value
            # A deploy may have changed the ways meanwhile.
            by_label = {way.label: way for way in ways}
            label = stored["label"]
            value = self.job.opened(step(label), stored["value"])
            return label, by_label[label].read(self.job, value)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(  # which is tried again: a later deploy may take it
                f"The wait {name!r} has ended with {shortened(stored)}, which the task "
                f"cannot take: {error}. Take it in the code, or retry the job from the "
                "beginning."
            ) from None

    async def await_(self, wait: Callable[..., Any], *arguments: Any) -> Any:
        """Call one of the above on a thread; raise here what suspends the job."""
        if self.is_awaited:
            raise two_at_once(arguments[0])
        self.is_awaited = True
        try:
            result = await sync_to_async(suspended_or)(wait, *arguments)
        finally:
            self.is_awaited = False
        if isinstance(result, Suspended):
            raise result
        return result

    @contextmanager
    def one_call(self, name: str) -> Iterator[None]:
        with self.alone(name), self.job.steps.called_once(name, False):
            yield

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Refuse a call where the job cannot be suspended."""
        steps = self.job.steps
        if self.job.suspended is not None:
            raise self.job.suspended
        if outer := inside.get(None):
            raise InvalidStep(
                f"{name!r} was called inside of step {outer!r}, which would be done "
                "again. Call it between two steps."
            )
        if steps.is_in_transaction:
            raise InvalidStep(
                f"{name!r} was called in a transaction, which nobody would commit "
                "while the job waits. Call it outside, in a task without atomic=True."
            )
        with self.lock:
            if self.is_busy:
                raise two_at_once(name)
            self.is_busy = True
        try:
            yield
        finally:
            self.is_busy = False

    def suspend(
        self, reason: str, stores: dict[str, Any], statement: str = "suspend"
    ) -> Suspended:
        suspended = Suspended(reason, statement, stores)
        self.job.suspended = suspended
        return suspended

    def take(self, name: str, ways: list[Way], timeout: Any) -> None:
        """Take what is there, or raise what suspends the job."""
        seconds = time_of("timeout", timeout)
        asked = [way.as_json(self.job.hide) for way in ways]
        try:
            check_json(asked)
        except ValueError as error:
            raise InvalidStep(
                f"What {shortened(name)} waits for cannot be stored: {error}."
            ) from None
        accepted: int | None = None
        steps = self.job.steps
        while self.job.has_row:
            taken = queue.take_wait(
                settings.DATABASE,
                self.job.id,
                self.job.lease_token,
                name,
                asked,
                accepted,
                steps.is_unread,
            )
            if taken.steps is not None:
                steps.results = taken.steps
            match taken.state:
                case "lost":
                    raise LeaseLost(self.job.id)
                case "done":
                    if not steps.is_done(name):
                        steps.results = steps.read()
                    return
                case "taken" | "over":
                    steps.load()[name] = taken.stored
                    return
                case "open":
                    steps.is_done(name)  # or there are too many
                    break
            accepted = self.checked(taken.answer or {}, ways)
        kinds = {way.kind for way in ways}
        raise self.suspend(
            f"It waits: {name}.",
            {
                "name": name,
                **seconds,
                "waiting_for": kinds.pop() if len(kinds) == 1 else "event",
                "ways": asked,
            },
        )

    def checked(self, answer: dict[str, Any], ways: list[Way]) -> int | None:
        """Return the id of an answer that the task can take; drop any other one."""
        (way,) = (way for way in ways if way.label == answer["label"])
        assert isinstance(way, AnswerWay)
        value = self.job.opened(step(answer["name"]), answer["value"])
        if fault := self.job.hide(way.fault_of(value, answer["answered_by"])):
            queue.drop_answer(settings.DATABASE, answer["id"])
            way.audit_refusal(self.job.id, answer, fault)
            self.job.log(f"An answer to {answer['name']!r} was dropped: {fault}")
            return None
        return answer["id"]


def two_at_once(name: Any) -> InvalidStep:
    return InvalidStep(
        f"{name!r} was called while the job waits for something else. To wait for "
        "several things at once, use wait_for_first."
    )


def suspended_or(wait: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the call returns, or what it raises to suspend the job."""
    try:
        return wait(*arguments)
    except Suspended as suspended:
        return suspended


def time_of(name: str, value: Any) -> dict[str, Any]:
    """Return a time as what stores it: seconds from now, or a moment.

    Raises InvalidStep.
    """
    if isinstance(value, datetime):
        if has_no_zone(value):
            raise InvalidStep(
                f"{name} must be seconds, a timedelta or an aware datetime, got "
                f"{value!r}: django.utils.timezone.now() is aware."
            )
        if not EARLIEST <= (until := aware(value)) < LATEST:
            raise InvalidStep(
                f"{name} must be a moment from 1970 to 9998, got {value!r}."
            )
        return {"until": until.isoformat()}
    try:
        return {"seconds": non_negative_seconds(name, value)}
    except ValueError as error:
        raise InvalidStep(str(error)) from None
