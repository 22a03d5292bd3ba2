"""The schedules in the manifest of a process; see definitions/declaring.py."""

from collections.abc import Iterable, Iterator
from typing import Any

from ...tasks import tables
from .declare import declared
from .units import as_declared, fields_of

KIND = "schedule"


def entries(database: str) -> Iterator[tuple[str, str, Any]]:
    for name, fields in declared(database).items():
        yield name, "", {"task": fields["task"], "declared": as_declared(fields)}


def apply(
    database: str, found: Iterable[tuple[str, str, Any]], others_go: bool
) -> None:
    schedules = tables.Schedule.objects.db_manager(database)
    rows = {
        name: {"task": value["task"], **fields_of(value["declared"])}
        for name, _, value in found
    }
    schedules.declare(rows, others_go)
