"""A system check: where operators say other things than the code."""

from collections.abc import Iterator

from django.core.checks import CheckMessage, Info, register
from django.db import connections
from django.db.utils import Error as DatabaseError

from ...base.database_choice import queue_databases
from ...conf import problems
from ...reports.texts import one_line
from .queue import wish_of
from .tables import Kind, Override

MOST_NAMED = 20


@register("pgjobs", "database")
def check_overrides(databases=None, **kwargs) -> list[CheckMessage]:
    """Name the tasks that operators have changed; `check --database ALIAS` runs it."""
    if any(problems()):
        return []
    return [
        message
        for alias in queue_databases()
        if alias in (databases or ()) and connections[alias].vendor == "postgresql"
        for message in overrides_in(alias)
    ]


def overrides_in(alias: str) -> Iterator[CheckMessage]:
    rows = Override.objects.using(alias).filter(kind=Kind.TASK).in_force()
    try:
        found = list(rows.order_by("key")[:MOST_NAMED])
    except DatabaseError:  # no tables yet, or no right to read them
        return
    for override in found:
        name = one_line(override.key)
        yield Info(
            f"{name} differs from its code in the database {alias!r}: "
            f"{wish_of(override).in_words}.",
            hint=f"Operators have changed it. Undo it: manage.py tasks lift {name}.",
            id="pgjobs.I090",
        )
