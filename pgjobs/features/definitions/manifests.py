"""Manifests in the database: what the versions of the code declare, and which live."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from ...queue.statements import Execute
from ...sql import statement

LIVES = 150.0  # seconds that a manifest outlives the last look at its worker
REMEMBERED = 3_600.0  # seconds; a version that is away for longer counts as new
FOREVER = 1e9  # seconds


class Entry(NamedTuple):
    """A task, a schedule or a subscription that a process declares."""

    kind: str
    name: str
    event: str  # empty unless it is a subscription
    digest: str  # of what matters when two versions are compared
    value: str  # JSON


class Stored(NamedTuple):
    """A manifest that a process has stored."""

    id: int
    is_in_force: bool  # another process has stored it, and nothing of it has gone


class Decided(NamedTuple):
    """What the newest version says that declares a name."""

    kind: str
    name: str
    event: str
    value: str  # JSON


class View(NamedTuple):
    """What a look at the manifests has found."""

    is_stored: bool  # the manifest of the worker that looks
    may_judge: bool
    has_strangers: bool  # workers whose declarations are unknown
    is_first: bool  # of the living workers that have stored theirs
    has_changed: bool


def store(
    execute: Execute,
    version: str,
    digest: str,
    entries: Sequence[Entry],
    lives: float,
) -> Stored:
    """Store a manifest that lives for so many seconds, at least.

    The caller holds the lock of `declare_alone`.
    """
    times = {"remembered": REMEMBERED, "lives": lives}
    execute(statement("forget_manifests"), times)
    id = id_of(version, digest)
    own = {"id": id, "version": version, "digest": digest}
    ((is_empty, has_lived),) = execute(statement("store_manifest"), {**own, **times})
    if is_empty and entries:
        columns = {
            name: [getattr(entry, name) for entry in entries] for name in Entry._fields
        }
        ids = [id_of(str(id), entry.kind, entry.name, entry.event) for entry in entries]
        execute(statement("store_entries"), {"manifest": id, "id": ids, **columns})
    ((misses_any,),) = execute(statement("misses_entries"), {"manifest": id})
    return Stored(id, is_in_force=has_lived and not misses_any)


def id_of(*texts: str) -> int:
    """Return a number for these texts that no other texts have."""
    found = sha256("\0".join(texts).encode()).digest()
    return int.from_bytes(found[:8], signed=True)


def look(execute: Execute, worker_id: int | None) -> View:
    """Let manifests of living workers live on, and tell what is out of date."""
    parameters = {"worker_id": worker_id, "lives": LIVES}
    (row,) = execute(statement("look_at_manifests"), parameters)
    return View(*row)


def decided(execute: Execute, memory: float) -> list[Decided]:
    """Return what is declared, each name as the newest manifest has it that lives.

    `memory`: seconds for which a manifest without workers counts, if it is in force.
    """
    rows = execute(statement("decided_entries"), {"memory": memory})
    return [Decided(*row) for row in rows]


def settle(execute: Execute, memory: float) -> None:
    """Remember that tasks, schedules and subscriptions are as declared in `decided`."""
    execute(statement("settle_manifests"), {"memory": memory})
