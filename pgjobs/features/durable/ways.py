"""The ways in which a wait may end: what is asked, and what the task gets."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.utils.timezone import get_default_timezone, make_naive

from ...base.ids import LARGEST_ID
from ...base.plain_json import check_text, shortened
from ...base.texts import storable
from ...conf import settings
from ...exceptions import InvalidStep
from ...tasks.hints import Hint
from ...tasks.running_job import PublishedEvent
from ..definitions.schemas import schema_of_type
from ..encryption.running_job import opened_end
from ..steps.running_job import LONGEST_NAME
from . import queue
from .answering import audit_refusal, is_permission, refusal
from .declare import Answer, JobEnd
from .people import names_of

MOST_JOBS = 1_000  # for which one wait waits
MOST_WAYS = 20
LONGEST_TITLE = 1_000


@dataclass(frozen=True, kw_only=True)
class Way:
    """One of the ways; without a label it is the only one."""

    kind: str
    label: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to wait for."""
        return False

    def as_json(self, hide: Callable[[str], str]) -> dict[str, Any]:
        """Return what is stored of it. `hide` masks sensitive values in texts."""
        return {"kind": self.kind, "label": self.label}

    def read(self, job: Any, value: Any) -> Any:
        """Return what the running job gets, from what the step has."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class AnswerWay(Way):
    """Somebody answers."""

    kind: str = "answer"
    hint: Hint
    answer: Answer

    def as_json(self, hide: Callable[[str], str]) -> dict[str, Any]:
        schema = schema_of_type(self.hint.hint)
        if "properties" in schema:  # PostgreSQL does not keep their order
            schema["x-order"] = list(schema["properties"])
        asked = {
            "schema": schema,
            "title": storable(hide(str(self.answer.title or "")), LONGEST_TITLE),
            "permission": self.answer.permission,
            "anyone_with_link": self.answer.anyone_with_link,
            # Only of these the schema says all: others may have validators.
            "is_plain": self.hint.plain_type is not None,
        }
        return {**super().as_json(hide), "asked": asked}

    def read(self, job: Any, value: Any) -> Any:
        return self.hint.load(value)

    def fault_of(self, value: Any, answered_by: str | None) -> str:
        """Return why the task cannot take an answer, or an empty text."""
        try:
            self.hint.load(value)
        except ValueError as error:
            return str(error)
        if answered_by is None:  # code has answered
            return ""
        user = get_user_model()._default_manager.filter(pk=answered_by).first()
        return refusal(user, self.answer.permission)

    def audit_refusal(self, job_id: int, answer: dict[str, Any], fault: str) -> None:
        key = answer["answered_by"] or ""
        actor = names_of([key]).get(key, key)
        audit_refusal(settings.DATABASE, actor, job_id, answer["name"], fault)


@dataclass(frozen=True, kw_only=True)
class EventWay(Way):
    """An event is published."""

    kind: str = "event"
    event: str
    aggregate_id: str | None

    def as_json(self, hide: Callable[[str], str]) -> dict[str, Any]:
        event = {"event": self.event, "aggregate_id": self.aggregate_id}
        return {**super().as_json(hide), **event}

    def read(self, job: Any, value: Any) -> Any:
        if row := job.steps.events.get(str(value)):  # it came with the claim
            return event_of(row)
        event = job.event_with(pk=value)
        if event is None:
            raise InvalidStep(f"Event {value!r}, which the job took, is gone.")
        return event


@dataclass(frozen=True, kw_only=True)
class JobsWay(Way):
    """Other jobs end."""

    kind: str = "jobs"
    ids: tuple[int, ...]

    @property
    def is_over(self) -> bool:
        return not self.ids

    def as_json(self, hide: Callable[[str], str]) -> dict[str, Any]:
        return {**super().as_json(hide), "jobs": list(self.ids)}

    def read(self, job: Any, value: Any) -> list[JobEnd]:
        return [JobEnd(**opened_end(job, each)) for each in value]


def event_of(row: dict[str, Any]) -> PublishedEvent:
    """Return the event of a row as JSON, as the model would read it."""
    published_at = datetime.fromisoformat(row["published_at"]).astimezone(UTC)
    if not django_settings.USE_TZ:
        published_at = make_naive(published_at, get_default_timezone())
    fields = {name: row[name] for name in PublishedEvent._fields}
    return PublishedEvent(**{**fields, "published_at": published_at})


def answer_way(answer: Answer, label: str | None = None) -> AnswerWay:
    """Return the way of an answer; raise InvalidStep if nobody could give it."""
    if answer.permission is not None and not is_permission(answer.permission):
        raise InvalidStep(
            f"permission {answer.permission!r} does not exist. Name one as "
            "'<app label>.<codename>', such as 'shop.approve_refund'; migrate creates "
            "those of the models."
        )
    kind = answer.type
    if isinstance(kind, list | tuple):  # choices, as in the place of a hint
        kind = Literal[tuple(kind)]
    try:
        # Only classes are remembered: other hints may be equal and differ in order.
        hint = hint_of_class(kind) if isinstance(kind, type) else Hint(kind)
    except ValueError as error:
        raise InvalidStep(
            f"The type of an answer must be one that JSON can carry, got "
            f"{shortened(answer.type)}: {error}."
        ) from None
    return AnswerWay(label=label, hint=hint, answer=answer)


@lru_cache(maxsize=256)
def hint_of_class(kind: type) -> Hint:
    """Return the hint, whose making takes longer than all else before a statement."""
    return Hint(kind)


def event_way(
    event: Any, aggregate_id: Any, known: Iterable[str], label: str | None = None
) -> EventWay:
    """Return the way of an event; raise InvalidStep for one that is not declared."""
    if not isinstance(event, str) or not any(fits(each, event) for each in known):
        raise InvalidStep(
            f"The task waits for the event {shortened(event)} and does not say so. "
            f"Declare it: @task(waits_for=({event!r},))."
        )
    if aggregate_id is not None:
        aggregate_id = str(aggregate_id)
        if not 1 <= len(aggregate_id) <= LONGEST_NAME:
            raise InvalidStep(
                f"aggregate_id must be a text of 1 to {LONGEST_NAME} characters, got "
                f"{shortened(aggregate_id)}."
            )
        try:
            check_text(aggregate_id)
        except ValueError as error:
            raise InvalidStep(f"aggregate_id {aggregate_id!a} {error}.") from None
    return EventWay(label=label, event=event, aggregate_id=aggregate_id)


def fits(pattern: str, name: str) -> bool:
    """Whether what the task declares has all events that are waited for."""
    return pattern == name or (pattern.endswith(".*") and name.startswith(pattern[:-1]))


def jobs_way(jobs: Any) -> JobsWay:
    """Return the way of other jobs; raise InvalidStep for what is no job."""
    if not isinstance(jobs, Iterable) or isinstance(jobs, str):
        raise InvalidStep(f"jobs must be jobs or their ids, got {shortened(jobs)}.")
    ids: list[Any] = [getattr(each, "pk", each) for each in jobs]
    are_ids = all(type(each) is int and abs(each) <= LARGEST_ID for each in ids)
    if not are_ids or len(ids) > MOST_JOBS:
        raise InvalidStep(
            f"jobs must be up to {MOST_JOBS} jobs or their ids, got {shortened(ids)}."
        )
    return JobsWay(ids=tuple(ids))


def several_ways(ways: Any, known: Iterable[str]) -> list[Way]:
    """Return the ways of `wait_for_first`; raise InvalidStep."""
    if not isinstance(ways, Mapping) or not 1 <= len(ways) <= MOST_WAYS:
        raise InvalidStep(
            f"wait_for_first takes a dict of 1 to {MOST_WAYS} events and answers, got "
            f"{shortened(ways)}."
        )
    made: list[Way] = []
    for label, way in ways.items():
        if not isinstance(label, str) or not 1 <= len(label) <= LONGEST_NAME:
            raise InvalidStep(
                f"A label must be a text of 1 to {LONGEST_NAME} characters, got "
                f"{shortened(label)}."
            )
        match way:
            case Answer():
                made.append(answer_way(way, label))
            case str() as event:
                made.append(event_way(event, None, known, label))
            case (str() as event, aggregate_id):
                made.append(event_way(event, aggregate_id, known, label))
            case _:
                raise InvalidStep(
                    f"{label!r} must be the name of an event, (event, aggregate_id) or "
                    f"Answer(type), got {shortened(way)}."
                )
    return made


def refuse_circle(job_id: int, way: JobsWay) -> None:
    """Raise InvalidStep if one of the jobs waits for this one."""
    if refused := queue.refused_jobs(settings.DATABASE, job_id, way.ids):
        listed = ", ".join(map(str, refused))
        raise InvalidStep(
            f"Jobs {listed} wait for this job, or for its lock, so none would ever go "
            "on. Enqueue them without after= and with another lock. What follows a "
            "batch waits for all its jobs: wait for it in a job outside of the batch."
        )
