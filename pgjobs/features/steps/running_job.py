"""The steps of a running job: what has been done, and what is still to do."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.db import connections, transaction

from ...base.plain_json import check_json, check_text, dump, shortened
from ...base.transactions import writing_only_to
from ...conf import settings
from ...exceptions import InvalidStep, LeaseLost
from ...queue.meta import handed_on, inherited
from ...queue.statements import execute_on
from ...sql import statement
from ...tasks import tables
from ..encryption.sealing import step

if TYPE_CHECKING:
    from ...tasks.running_job import RunningJob

LONGEST_NAME = 200
MOST_STEPS = 1_000  # in one life of a job
MOST_LOGGED = 8  # names of steps in a line of the log
LARGEST_RESULT = 64_000  # bytes of JSON; a retry reads the results of all steps


class DoneElsewhere(Exception):
    """Another worker has marked the step while this one ran it."""


# The name of the step whose function runs here.
inside: ContextVar[str] = ContextVar("pgjobs_step")


class Marked(NamedTuple):
    """Whether the step was marked, and whether the job still has its lease token."""

    is_owner: bool
    is_written: bool


class Steps:
    """The steps of one attempt: those that earlier attempts did, and its own."""

    def __init__(self, job: "RunningJob"):
        self.job = job
        # What came with the claim: durable/functions/resume.sql.
        resumed = json.loads(job.resumed) if job.resumed else {}
        self.results: dict[str, str | None] | None = resumed.get("steps")  # JSON text
        self.events: dict[str, dict[str, Any]] = resumed.get("events", {})  # by id
        # Whether what its waits ask for may be there already.
        self.looks: bool = resumed.get("looks", False)
        self.called: set[str] = set()
        self.lock = Lock()

    def run(self, name: str, function: Callable, args, kwargs, atomic: bool) -> Any:
        """See `RunningJob.step`."""
        refuse_async(name, function)
        with self.called_once(name, atomic):
            if not self.is_done(name):
                do = self.do_in_transaction if atomic else self.do
                do(name, function, args, kwargs)
            return self.result(name)

    def do(self, name: str, function: Callable, args, kwargs) -> None:
        self.refuse_transaction(name)
        with inside_of(self.job, name):
            text = self.stored(name, function(*args, **kwargs))
        self.remember(name, text, self.mark(name, text))

    def do_in_transaction(self, name: str, function: Callable, args, kwargs) -> None:
        database = settings.DATABASE
        is_first = True
        try:
            with transaction.atomic(database):
                with writing_only_to(database), inside_of(self.job, name):
                    text = self.stored(name, function(*args, **kwargs))
                is_first = self.mark(name, text)
                if not is_first:
                    raise DoneElsewhere
        except DoneElsewhere:
            text = None  # what the function did here was rolled back
        self.remember(name, text, is_first)

    async def arun(
        self, name: str, function: Callable, args, kwargs, atomic: bool
    ) -> Any:
        """See `RunningJob.astep`."""
        if not is_async(function):
            return await sync_to_async(self.run)(name, function, args, kwargs, atomic)
        with self.called_once(name, atomic):
            if atomic:
                raise InvalidStep(
                    f"Step {name!r} cannot be atomic: a transaction of Django's cannot "
                    "span an await. Give it a function defined by def."
                )
            if not await sync_to_async(self.is_done)(name):
                await sync_to_async(self.refuse_transaction)(name)
                with inside_of(self.job, name):
                    text = self.stored(name, await function(*args, **kwargs))
                is_first = await sync_to_async(self.mark)(name, text)
                await sync_to_async(self.remember)(name, text, is_first)
            return await sync_to_async(self.result)(name)

    @contextmanager
    def called_once(self, name: str, atomic: bool) -> Iterator[None]:
        """Refuse a name that the attempt has used, unless that step failed."""
        if self.job.suspended is not None:
            raise self.job.suspended
        check_name(name)
        self.job.refuse_shown("The name of a step", name)
        if not isinstance(atomic, bool):
            raise InvalidStep(
                f"atomic of step {name!r} must be True or False, got {atomic!r}."
            )
        with self.lock:
            if name in self.called:
                raise InvalidStep(
                    f"Step {name!r} was called before in this attempt. Give each call "
                    "a name of its own, in a loop with the number of the round: "
                    f"{in_a_loop(name)}."
                )
            self.called.add(name)
        try:
            yield
        except BaseException:
            self.called.discard(name)
            raise

    def refuse_transaction(self, name: str) -> None:
        """Raise InvalidStep where a mark could be rolled back alone."""
        if self.is_in_transaction:
            raise InvalidStep(
                f"Step {name!r} was called in a transaction, whose rollback would "
                "forget it. Call it outside, or with atomic=True: then both are rolled "
                "back."
            )

    @property
    def is_in_transaction(self) -> bool:
        connection = connections[settings.DATABASE]
        outer_blocks = self.job.outer_blocks
        if outer_blocks and len(connection.atomic_blocks) == outer_blocks:
            return False  # the transaction is that of a test, and not of the job
        return not connection.get_autocommit()

    def is_done(self, name: str) -> bool:
        """Whether the step is done already; raise InvalidStep if there are too many."""
        results = self.load()
        if name not in results and len(results) >= MOST_STEPS:
            raise InvalidStep(
                f"Step {name!r} is one too many: a job may have {MOST_STEPS}. Enqueue "
                "a job for each part instead."
            )
        return name in results

    def load(self) -> dict[str, str | None]:
        """Return the results so far. The first attempt of all asks for none."""
        if self.results is None:
            self.results = self.read() if self.is_unread else {}
        return self.results

    @property
    def is_unread(self) -> bool:
        """Whether earlier attempts may have done steps that this one has not read."""
        return self.results is None and (self.job.attempt > 1 or self.job.life > 1)

    def read(self) -> dict[str, str | None]:
        return results_of(settings.DATABASE, self.job.id, self.job.life)

    def result(self, name: str) -> Any:
        """Return the step's result, read from its JSON as in every attempt."""
        text = self.load()[name]
        value = None if text is None else json.loads(text)
        return self.job.opened(step(name), value)

    def stored(self, name: str, value: Any) -> str | None:
        """Return what is stored of a step's result; raise InvalidStep."""
        return self.job.sealed(step(name), storable_result(name, value))

    def mark(self, name: str, text: str | None) -> bool:
        """Store that the step is done; return whether no other worker had done it."""
        marked = mark(settings.DATABASE, self.job.id, self.job.lease_token, name, text)
        if not marked.is_owner:
            raise LeaseLost(self.job.id)
        return marked.is_written

    def log_unasked(self) -> None:
        """Name in the job's log the done steps that the code did not ask for."""
        unasked = sorted({*(self.results or ())} - self.called)
        if unasked:
            some = ", ".join(map(repr, unasked[:MOST_LOGGED]))
            more = len(unasked) - MOST_LOGGED
            others = f" and {more} others" if more > 0 else ""
            self.job.log(
                f"The code did not ask for steps that are done: {some}{others}. It may "
                "have changed since, or they have another name."
            )

    def remember(self, name: str, text: str | None, is_first: bool) -> None:
        """Keep the result. If two workers did the step, that of the first counts."""
        if is_first:
            self.load()[name] = text
        else:
            self.results = self.read()


@contextmanager
def inside_of(job: "RunningJob", name: str) -> Iterator[None]:
    """Let what the step's function calls know that it does.

    A job that it enqueues knows its parent, and is kept until that has ended.
    """
    tokens = inside.set(name), inherited.set(handed_on(job.id, job.meta))
    try:
        yield
    finally:
        inside.reset(tokens[0])
        inherited.reset(tokens[1])


def is_async(function: Callable) -> bool:
    return iscoroutinefunction(function) or getattr(function, "is_async", False)


def refuse_async(name: str, function: Callable) -> None:
    """Raise InvalidStep if only `astep` can run the step."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if not is_async(function):
            return
    raise InvalidStep(
        f"Step {name!r} is one of async code: use `await current_job().astep(...)`."
    )


def in_a_loop(name: str) -> str:
    """Return what a name may look like in a loop, as code."""
    return "f" + repr(name.replace("{", "{{").replace("}", "}}") + "-{number}")


def check_name(name: Any) -> None:
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
        raise InvalidStep(
            f"The name of a step must be 1 to {LONGEST_NAME} characters, got "
            f"{shortened(name)}."
        )
    try:
        check_text(name)
    except ValueError as error:
        raise InvalidStep(f"The name of step {name!a} {error}.") from None


def with_ids(value: Any) -> Any:
    """Return the ids of jobs in place of them: `enqueue` returns a job."""
    if isinstance(value, list) and any(isinstance(item, tables.Job) for item in value):
        return [with_ids(item) for item in value]
    return value.pk if isinstance(value, tables.Job) else value


def storable_result(name: str, value: Any) -> str | None:
    """Return a step's result as JSON text; raise InvalidStep if there is none."""
    value = with_ids(value)
    if value is None:
        return None
    try:
        check_json(value)
    except ValueError as error:
        raise InvalidStep(
            f"The result of step {name!r} cannot be stored: {error}."
        ) from None
    text = dump(value)
    size = len(text.encode())
    if size > LARGEST_RESULT:
        raise InvalidStep(
            f"The result of step {name!r} is {size} bytes of JSON, and a step may keep "
            f"{LARGEST_RESULT}. Store it elsewhere and return its key."
        )
    return text


def results_of(database: str, job_id: int, life: int) -> dict[str, str | None]:
    """Return the results, as JSON text, of the steps done in this life, by name."""
    rows = execute_on(database)(statement("steps"), {"job_id": job_id, "life": life})
    return dict(rows)  # type: ignore[arg-type]


def mark(
    database: str, job_id: int, lease_token: int, name: str, return_value: str | None
) -> Marked:
    """Remember that a step is done, in the caller's transaction if there is one."""
    parameters = {
        "job_id": job_id,
        "lease_token": lease_token,
        "name": name,
        "return_value": return_value,
    }
    (row,) = execute_on(database)(statement("mark_step"), parameters)
    return Marked._make(row)


PARTS = (("steps", Steps),)
