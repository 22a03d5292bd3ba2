"""What operators change of a task or of a key at run time."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.utils.timezone import now
from django.utils.translation import gettext

from ...base.moments import instant
from ...exceptions import InvalidTask
from ...models.audit_entry import AuditEntry
from ...models.definition import TaskDefinition
from ...queue.statements import execute_on
from ...sql import statement
from ...tasks.flow_control import LONGEST_KEY, MOST, RATE, read_rate
from .tables import Kind, Override, OverrideQuerySet


class Wish(NamedTuple):
    """What an operator wants of a task or key. None: as the code says."""

    paused: bool = False
    max_running: int | None = None
    rate: str | None = None  # as @task takes it
    until: datetime | None = None  # None: until it is lifted
    note: str = ""

    @property
    def in_words(self) -> str:
        said = [
            "paused" if self.paused else "",
            f"max_running {self.max_running}" if self.max_running else "",
            f"rate {self.rate}" if self.rate else "",
        ]
        words = ", ".join(filter(None, said)) or "lifted"
        if words == "lifted" or self.until is None:
            return words
        return f"{words}, until {instant(self.until):%Y-%m-%d %H:%M} UTC"


def wish_of(override: Override | None) -> Wish:
    """Return what an override says."""
    if override is None:
        return Wish()
    return Wish(
        paused=override.paused_at is not None,
        max_running=override.max_running,
        rate=override.rate,
        until=override.until,
        note=override.note,
    )


class Set(NamedTuple):
    id: int | None
    has_changed: bool


def current(database: str, kind: str, key: str) -> Override | None:
    """Return the override of a task or key, if one is in force."""
    rows = Override.objects.using(database).filter(kind=kind, key=key)
    return rows.in_force().first()


def set_override(
    database: str, kind: str, key: str, wish: Wish, actor: str, via: Any
) -> bool:
    """Store a wish, with an entry in the audit trail; return whether it changed it.

    Raises InvalidTask for what cannot be stored.
    """
    check(kind, key, wish)
    number, seconds = read_rate(wish.rate) if wish.rate else (None, None)
    parameters = {
        "kind": kind,
        "key": key,
        "paused": wish.paused,
        "max_running": wish.max_running,
        "rate_number": number,
        "rate_seconds": seconds,
        "until": wish.until and instant(wish.until),
        "note": wish.note,
    }
    act = "lift" if wish.in_words == "lifted" else "override"
    chosen = f"{kind} {key}: {wish.in_words}"
    audited = AuditEntry.objects.db_manager(database).audited
    with audited(actor, via, act, "override", None, chosen, wish.note) as entry:
        with transaction.atomic(using=database):
            ((id, has_changed, *_),) = execute_on(database)(
                statement("set_override"), parameters
            )
        entry.object_id, entry.number = id, int(has_changed)
    return has_changed


def check(kind: str, key: str, wish: Wish) -> None:
    """Raise InvalidTask if the wish makes no sense for this kind."""
    if kind not in Kind.values:
        raise InvalidTask(
            f"kind must be one of {', '.join(Kind.values)}, got {kind!r}."
        )
    if not key or len(key) > LONGEST_KEY or "\0" in key:
        raise InvalidTask(f"The key must be 1 to {LONGEST_KEY} characters.")
    if wish.rate is not None and not RATE.fullmatch(wish.rate):
        raise InvalidTask(f"rate must be like '100/minute', got {wish.rate!r}.")
    if wish.max_running is not None and not 1 <= wish.max_running <= MOST:
        raise InvalidTask(
            f"max_running must be at least 1, got {wish.max_running}. Or pause."
        )
    if wish.rate is not None and kind not in (Kind.TASK, Kind.RATE):
        raise InvalidTask(f"A {kind} has no rate.")
    if wish.max_running is not None and kind not in (Kind.TASK, Kind.LIMIT):
        raise InvalidTask(f"A {kind} has no max_running.")
    if wish.until is not None and instant(wish.until) <= instant(now()):
        raise InvalidTask("The time of the override is over already.")


def ends_in(age: timedelta | None) -> datetime | None:
    return None if age is None else now() + age


# What the code declares


class Declared(NamedTuple):
    """What a task declares of what can be changed, as its definition has it."""

    lock: Any
    max_running: int | None
    rate: str | None

    @classmethod
    def of(cls, definition: TaskDefinition) -> "Declared":
        options = definition.options if isinstance(definition.options, dict) else {}
        keys = options.get("keys") or {}
        keys = keys if isinstance(keys, dict) else {}
        return cls(
            keys.get("lock", options.get("lock")),
            keys.get("max_running"),
            declared_rate(keys),
        )

    def kinds(self, subject: str) -> set[str]:
        """Return of what something can be changed: the task, and keys that it has.

        `subject`: a kind that is changed anyhow, such as that of another task's key.
        """
        declared = {"lock": self.lock, "limit": self.max_running, "rate": self.rate}
        return {"task", subject, *(kind for kind, said in declared.items() if said)}

    def why_not(self, wish: Wish) -> str | None:
        """Return why a wish for a task cannot be had, or None."""
        if wish.max_running is not None and self.max_running is None:
            return gettext(
                "Its code declares no max_running, so there is none to change. Pause "
                "it, or limit its queue."
            )
        if wish.rate is not None and self.rate is None:
            return gettext(
                "Its code declares no rate, so there is none to change. Pause it, or "
                "limit its queue."
            )
        return None


def declared_rate(keys: dict[str, Any]) -> str | None:
    """Return the rate of a definition in the words of the code."""
    step = keys.get("rate_interval")
    number = keys.get("rate_number") or keys.get("rate_burst")
    if not isinstance(step, int | float) or not isinstance(number, int):
        return None
    return Override(rate_number=number, rate_seconds=round(step * number)).rate


def of_tasks(database: str, names: Iterable[str]) -> dict[str, Override]:
    """Return the overrides of these tasks, by their names."""
    rows = Override.objects.using(database).filter(kind=Kind.TASK, key__in=list(names))
    return {each.key: each for each in rows.in_force()}


def of_keys(database: str, most: int) -> list[Override]:
    """Return the overrides of keys, the latest first, so many at most."""
    return list(keys_in_force(database)[:most])


def keys_in_force(database: str) -> OverrideQuerySet:
    rows = Override.objects.using(database).exclude(kind=Kind.TASK)
    return rows.in_force().order_by("-changed_at")
