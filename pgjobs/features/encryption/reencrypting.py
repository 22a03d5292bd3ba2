"""Moves what is encrypted to the first key, and encrypts what stands in the clear."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import QuerySet

from ...base.plain_json import dump_checked, load
from ...exceptions import EncryptionError
from ...models.job import Job
from ...queue.statements import execute_on
from ...sql import statement
from ...tasks import tables
from ...tasks.arguments import Stored
from ...tasks.registry import registry
from .keyring import Keyring, keyring
from .marking import marks
from .sealing import (
    REST,
    RESULT,
    SEALED,
    Seal,
    argument,
    is_whole,
    read,
    seal_of,
    step,
)
from .stored import read as read_mark

LOCKING = "\nFOR NO KEY UPDATE SKIP LOCKED"
BATCH = 200  # rows that one transaction holds
MOST_READ = 2_000  # rows that one statement reads: few of them may be encrypted
LAST = 2**63 - 1


class JobRow(NamedTuple):
    id: int
    task: str
    status: str
    args: str
    kwargs: str
    return_value: str | None
    mark: str | None


class ValueRow(NamedTuple):
    """A step or an answer."""

    id: int
    job_id: int
    name: str
    value: str
    mark: str | None
    has_labels: bool
    is_event: bool


@dataclass
class Found:
    """What a pass has seen, and what it has changed or would change."""

    by_key: Counter[str] = field(default_factory=Counter)  # values by their keys' ids
    rows: int = 0  # that another key, or none, has encrypted
    plain: int = 0  # values in the clear
    running: int = 0  # jobs in the clear that run
    unreadable: list[str] = field(default_factory=list)


class Pass:
    """One walk over the tables. It changes nothing unless `stores` says so."""

    def __init__(self, database: str, stores: bool):
        self.database = database
        self.stores = stores
        self.ring: Keyring = keyring()
        self.found = Found()
        self.execute = execute_on(database)

    def run(self) -> Found:
        """Walk over jobs, then over what they keep. Raises EncryptionError."""
        self.ring.first.cipher  # noqa: B018  (raises without a key or the package)
        names = [
            name
            for task in registry.all_tasks()
            if task.options.encrypted
            for name in task.names
        ]
        self.walk("jobs", Job, self.job, JobRow, tasks=names)
        self.walk("steps", tables.Step, self.value, ValueRow)
        self.walk("answers", tables.Answer, self.value, ValueRow)
        return self.found

    def walk(
        self, kind: str, model: Any, change: Callable, row_class: Any, **more: Any
    ) -> None:
        """Walk over a table by its ids, however few of its rows are encrypted."""
        by_id = QuerySet(model).using(self.database).order_by("pk")
        after, last = 0, 0
        while after < LAST:
            if after == last:
                ids = by_id.filter(pk__gt=after).values_list("pk", flat=True)
                last = next(iter(ids[MOST_READ - 1 : MOST_READ]), LAST)
            given = {"after": after, "last": last, "limit": BATCH, **more}
            ids_found = self.batch(kind, change, row_class, given)
            after = ids_found[-1] if len(ids_found) == BATCH else last

    def batch(
        self, kind: str, change: Callable, row_class: Any, given: dict[str, Any]
    ) -> list[int]:
        """Change a batch in a transaction; return the ids of the rows."""
        with transaction.atomic(self.database):
            text = statement(f"encrypted_{kind}")
            if kind == "jobs" and self.stores:
                text += LOCKING
            rows = self.execute(text, given)
            changed = list(self.changed(map(row_class._make, rows), change, kind))
            if changed and self.stores:
                self.execute(
                    f"{statement(f'store_encrypted_{kind}')} RETURNING 1",
                    {
                        "rows": json.dumps(changed),
                        "ids": [row["id"] for row in changed],
                    },
                )
        return [row[0] for row in rows]

    def changed(
        self, rows: Iterator[Any], change: Callable, kind: str
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows to store. What cannot be read is named."""
        for row in rows:
            try:
                new = change(row)
            except (EncryptionError, ValueError, RecursionError) as error:
                why = error if isinstance(error, EncryptionError) else "is no JSON"
                owner = f" of job {row.job_id}" if kind != "jobs" else ""
                name = f"{kind.removesuffix('s')} {row.id}{owner}"
                self.found.unreadable.append(f"{name}: {why}")
                continue
            if new is not None:
                self.found.rows += 1
                yield {"id": row.id, **new}

    # Jobs

    def job(self, row: JobRow) -> dict[str, Any] | None:
        """Return what is stored of a job anew, or None if all is as it should be."""
        task = registry.find(row.task)
        mark = None if row.mark is None else read_mark(row.mark)
        seal = seal_of(mark)
        if seal is None or mark is None:
            if row.status == "RUNNING":  # its worker has no mark
                self.found.running += 1
                return None
            seal, mark = Seal.new(), {"names": []}
        names = list(mark.get("names") or ())
        named = load(row.kwargs)
        for name in names:
            if name in named:
                named[name] = self.moved(seal, argument(name), named[name])
        args = load(row.args)
        if mark.get(REST):
            args = [self.moved(seal, REST, token) for token in args]
        new: dict[str, Any] = {
            "args": dump_checked(args),
            "kwargs": dump_checked(named),
        }
        new_mark = {**mark, "by": seal.by, "names": names}
        if task is not None:
            self.add_plain(task, seal, new, new_mark)
        value = None if row.return_value is None else load(row.return_value)
        if value is not None:
            value = self.whole(seal, RESULT, value)
        new["return_value"] = None if value is None else dump_checked(value)
        new["marks"] = dump_checked(marks(new_mark))
        given = (row.args, row.kwargs, row.return_value or "null")
        stored = (new["args"], new["kwargs"], new["return_value"] or "null")
        is_same = all(map(equal, given, stored)) and new_mark == mark
        return None if is_same else new

    def add_plain(
        self, task: Any, seal: Seal, new: dict[str, Any], mark: dict[str, Any]
    ) -> None:
        """Encrypt the arguments that the task calls encrypted, and that are plain."""
        named = load(new["kwargs"])
        known = set(mark["names"])
        plain = {name: named[name] for name in named if name not in known}
        args = "[]" if mark.get(REST) else new["args"]
        closed = task.options.close(Stored(args, dump_checked(plain)), seal)
        is_rest = closed.mark.get(REST, False)
        self.found.plain += len(closed.mark["names"]) + is_rest
        self.found.by_key[self.ring.first.id] += len(closed.mark["names"]) + is_rest
        new["kwargs"] = dump_checked({**named, **load(closed.kwargs)})
        mark["names"] = [*mark["names"], *closed.mark["names"]]
        if is_rest:
            new["args"] = closed.args
            mark[REST] = True

    # Steps and answers

    def value(self, row: ValueRow) -> dict[str, Any] | None:
        before = load(row.value)
        seal = seal_of(None if row.mark is None else read_mark(row.mark))
        after = self.changed_value(row, seal, before)
        if after == before:
            return None
        return {"before": row.value, "value": dump_checked(after)}

    def changed_value(self, row: ValueRow, seal: Seal | None, value: Any) -> Any:
        if are_ends(value):  # each opens by the mark of its own job
            return [self.end(each) for each in value]
        if seal is None:
            return value
        if row.has_labels and isinstance(value, dict) and "label" in value:
            place = step(value["label"])
            inner = value.get("value")
            if is_whole(inner):
                return {**value, "value": self.whole(seal, place, inner)}
            return value  # an event, or its answer came before the mark
        if row.is_event and not is_whole(value):
            return value  # its id
        return self.whole(seal, step(row.name), value)

    def end(self, end: dict[str, Any]) -> dict[str, Any]:
        if "by" not in end or not is_whole(end["value"]):
            return end
        return {**end, "value": self.whole(Seal(end["by"]), RESULT, end["value"])}

    # Values

    def whole(self, seal: Seal, place: str, value: Any) -> Any:
        if is_whole(value):
            return {SEALED: self.moved(seal, place, value[SEALED])}
        self.found.plain += 1
        self.found.by_key[self.ring.first.id] += 1
        return {SEALED: seal.close(place, dump_checked(value))}

    def moved(self, seal: Seal, place: str, token: Any) -> str:
        """Return the value by the first key. Raises EncryptionError."""
        id, _ = read(token)
        if id == self.ring.first.id:
            self.found.by_key[id] += 1
            return token
        text = seal.open(place, token)
        self.found.by_key[id] += 1
        return seal.close(place, text)


def equal(one: str, other: str) -> bool:
    return load(one) == load(other)


def are_ends(value: Any) -> bool:
    """Whether a step has how other jobs have ended, one of them encrypted."""
    return (
        isinstance(value, list)
        and all(isinstance(each, dict) and "status" in each for each in value)
        and any("by" in each for each in value)
    )


class Outcome(NamedTuple):
    first: Found  # before, and what was changed
    last: Found  # as it stands now


def reencrypt(database: str, stores: bool) -> Outcome:
    """Move all to the first key; without `stores` only look."""
    first = Pass(database, stores).run()
    return Outcome(first, Pass(database, False).run() if stores else first)


def old_keys() -> Sequence[str]:
    """Return the ids of the keys that only decrypt."""
    return [key.id for key in keyring().keys[1:]]
