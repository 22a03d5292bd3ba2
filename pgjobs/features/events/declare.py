"""Events: published in the caller's transaction, delivered to every subscribed task."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import UUID

from asgiref.sync import sync_to_async

from ...base.plain_json import check_text, dump, shortened
from ...conf import settings
from ...exceptions import InvalidEvent, InvalidTask
from ...tasks import tables
from ...tasks.arguments import Stored
from ...tasks.destination import check_database
from ...tasks.flow_control import KEYS, placeholders
from ...tasks.hints import json_data
from ...tasks.registry import registry
from ...tasks.running_job import PublishedEvent, current, current_job
from ...tasks.task import J, P, R, Task
from .names import LONGEST_TEXT, NAME, check_pattern
from .queue import HANDLER_OPTIONS

if TYPE_CHECKING:
    from .tables import Event

MAX_ATTEMPTS = 8  # of handlers without max_attempts of their own


class Subscribed(NamedTuple):
    """A subscription of a task to an event's name, or a pattern such as "tle.*"."""

    event: str
    is_ordered: bool


# Publishing


def publish(
    name: str,
    payload: Mapping[str, Any] | None = None,
    *,
    aggregate_id: str | int | UUID | None = None,
    correlation_id: str | int | UUID | None = None,
    database: str | None = None,
) -> "Event":
    """Insert an event, and a job for each subscribed task, in the caller's transaction.

    - `name`: such as "tle.refreshed".
    - `payload`: the arguments of the handlers, by their names. Dates, UUIDs, Decimals
      and the like are kept in their JSON form.
    - `aggregate_id`: what the event is about, such as "satellite-5". Handlers may ask
      for its events in order.
    - `correlation_id`: a text by which events that belong together are found again.
    - `database`: the alias of the database where it is published and delivered. None
      chooses it as for a job.

    Returns the event, saved. Raises InvalidEvent before anything is written.
    """
    if not (isinstance(name, str) and NAME.fullmatch(name)):
        raise InvalidEvent(
            f"name of an event must be 1 to {LONGEST_TEXT} characters without spaces, "
            f"control characters and *, got {shortened(name)}."
        )
    if database is not None:
        check_database(database)
    return tables.Event.objects.db_manager(database).publish(
        name,
        payload_text({} if payload is None else payload),
        shown_id("aggregate_id", aggregate_id),
        shown_id("correlation_id", correlation_id),
    )


async def apublish(
    name: str,
    payload: Mapping[str, Any] | None = None,
    *,
    aggregate_id: str | int | UUID | None = None,
    correlation_id: str | int | UUID | None = None,
    database: str | None = None,
) -> "Event":
    """Publish from async code; see `publish`."""
    return await sync_to_async(publish)(
        name,
        payload,
        aggregate_id=aggregate_id,
        correlation_id=correlation_id,
        database=database,
    )


def payload_text(payload: Any) -> str:
    """Return a payload as JSON text; raise InvalidEvent if it cannot be stored."""
    named = isinstance(payload, Mapping) and all(isinstance(n, str) for n in payload)
    if not named:
        raise InvalidEvent(
            "payload of an event must be a dict of arguments by their names, got "
            f"{shortened(payload)}."
        )
    try:
        text = dump(json_data(dict(payload)))
    except ValueError as error:
        raise InvalidEvent(f"payload of an event: {error}.") from error
    size = len(text.encode())
    if size > settings.MAX_ARGUMENT_BYTES:
        raise InvalidEvent(
            f"payload of an event is {size} bytes of JSON, more than the "
            f"{settings.MAX_ARGUMENT_BYTES} that PGJOBS['MAX_ARGUMENT_BYTES'] allows."
        )
    return text


def id_text(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, UUID) or type(value) is int:
        value = str(value)
    fault = f"must be a text of 1 to {LONGEST_TEXT} characters, got {shortened(value)}"
    try:
        if isinstance(value, str) and 1 <= len(value) <= LONGEST_TEXT:
            check_text(value)
            return value
    except ValueError as error:
        fault = str(error)
    raise InvalidEvent(f"{name} of an event {fault}.")


def shown_id(name: str, value: Any) -> str | None:
    """Return an id as text; raise InvalidEvent for one with an encrypted value."""
    text = id_text(name, value)
    job = current.get(None)
    if text is not None and job is not None and job.shows(text):
        raise InvalidEvent(
            f"{name} of an event has the value of an encrypted argument, and stands in "
            "the clear. Use an id, or a number."
        )
    return text


# Subscribing


def subscribe(
    event: str, *, ordered_by: Literal["aggregate"] | None = None
) -> Callable[[Task[P, R, J]], Task[P, R, J]]:
    """Make a task handle events. Stands above `@task`, as often as you like.

    Each delivery is a job of the task with the payload as its arguments. It has 8
    attempts unless the task says otherwise.

    - `event`: a name such as "tle.refreshed", or "tle.*" for all names that begin so.
    - `ordered_by`: "aggregate" lets the events of one aggregate_id run one after
      the other, in the order in which they were published.

    Returns what decorates the task. Raises InvalidTask.
    """
    check_pattern("@subscribe", event)
    if ordered_by not in (None, "aggregate"):
        raise InvalidTask(
            f"ordered_by of @subscribe must be 'aggregate' or None, got {ordered_by!r}."
        )
    subscribed = Subscribed(event, ordered_by is not None)

    def add(task: Task[P, R, J]) -> Task[P, R, J]:
        if not isinstance(task, Task):
            raise InvalidTask(
                f"@subscribe takes a task, got {task!r}: write it above @task."
            )
        check_handler(task, subscribed)
        task.declarations[Subscribed].append(subscribed)
        task.read_before = ("event",)
        return task

    return add


def check_handler(task: Task[Any, Any, Any], subscribed: Subscribed) -> None:
    """Raise InvalidTask if the database cannot make jobs of this task."""
    name = f"{task.function.__module__}.{task.function.__qualname__}"
    options = task.options
    if subscribed.event in {each.event for each in task.declarations[Subscribed]}:
        raise InvalidTask(f"{name} subscribes to {subscribed.event!r} twice.")
    if options.encrypted:
        raise InvalidTask(
            f"{name} cannot be encrypted and subscribe to events: the event's payload "
            "stands in the clear, as do the jobs that the database makes of it. Let "
            "the handler look up by an id what is secret, and enqueue this task."
        )
    if options.is_unique:
        raise InvalidTask(
            f"{name} cannot be unique and subscribe to events: each is delivered. "
            "Let the handler enqueue a unique task."
        )
    if subscribed.is_ordered and options.lock is not None:
        raise InvalidTask(
            f"{name} cannot have a lock and ordered_by='aggregate', which is one."
        )
    for option in KEYS:
        key = getattr(options, option)
        if callable(key) or (key is not None and any(placeholders(key))):
            raise InvalidTask(
                f"{option} of {name} must be a plain text, got {key!r}: the database "
                "makes the jobs of a handler, and does not call Python. "
                "ordered_by='aggregate' gives each aggregate a lock of its own."
            )


def declarations() -> Iterator[tuple[Task, Subscribed]]:
    """Yield every subscription that the tasks of this process declare."""
    for task in registry.tasks.values():
        for subscribed in task.declarations[Subscribed]:
            yield task, subscribed


def declared() -> dict[tuple[str, str], dict[str, Any]]:
    """Return {(task, event): columns} of the subscriptions that are declared."""
    return {
        (task.name, subscribed.event): row_of(task, subscribed)
        for task, subscribed in declarations()
    }


def row_of(task: Task, subscribed: Subscribed) -> dict[str, Any]:
    """Return the columns by which the database makes the handler's jobs."""
    options = task.options
    says = "max_attempts" in task.given_options
    keys: dict[str, Any] = {**options.fixed_keys()}
    if options.has_flow_control:  # its keys are plain texts, which need no arguments
        keys |= options.flow_control_keys(task.signature, (), {}, Stored("[]", "{}"))
    return {
        **{name: options.columns[name] for name in HANDLER_OPTIONS},
        "is_ordered": subscribed.is_ordered,
        "max_attempts": options.max_attempts if says else MAX_ATTEMPTS,
        "keys": keys or None,
    }


# Handling


def current_event() -> PublishedEvent:
    """Return the event that the running job delivers.

    Raises RuntimeError outside of a job, and in a job that delivers no event.
    """
    event = current_job().event
    if event is None:
        raise RuntimeError(
            "current_event() was called in a job that delivers no event: code "
            "enqueued it, or its event was deleted."
        )
    return event
