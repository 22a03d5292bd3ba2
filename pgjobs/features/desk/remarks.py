"""The one list of what is wrong: for the overview, `jobstatus` and the metrics.

Features add kinds of remarks to it, by `ALERTS` in their modules of this name.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError, connections, transaction
from django.utils.translation import gettext

from ...base.database_errors import text_of
from ...reports.reading import Report
from ...reports.remarks import PROBLEM, Alert, Remark, Seen
from .acknowledging import acknowledgements
from .kinds import ALERTS, NO_WORKER, UNSERVED_QUEUES
from .limits import OFF, alerts, chosen

logger = logging.getLogger("pgjobs.status")

# What a role that may not read keys reads through views.
ROLE_VIEWS = (
    Report("no_worker", NO_WORKER, ("name", "ended_at", "how")),
    Report("unserved_queues", UNSERVED_QUEUES, ("queue_name", "number", "since")),
)
# What the first of two kinds says, the second one says better.
SAID_BY = {"worker_lost": "workers_lost"}
# No statement takes longer. As a rule all of them take 50 ms.
HURRY = """
SELECT current_setting('statement_timeout'),
    set_config('statement_timeout', '2000', true)
"""
AS_BEFORE = "SELECT set_config('statement_timeout', %s, true)"


def found(seen: Seen) -> list[Remark]:
    """Return the problems, then the remarks; those that are acknowledged say so."""
    try:
        with hurrying(seen.database):
            remarks = [each for alert in alerts().values() for each in of(alert, seen)]
    except DatabaseError:  # one fault hides nothing else
        remarks = [each for alert in alerts().values() for each in alone(alert, seen)]
    kinds = {each.kind for each in remarks if each.level == PROBLEM}
    shown = [each for each in remarks if SAID_BY.get(each.kind) not in kinds]
    known = acknowledgements(seen.database)
    named = [
        each._replace(acknowledged=known.get((each.kind, each.subject), ""))
        for each in shown
    ]
    return sorted(named, key=lambda each: (not each.is_problem, each.level))


@contextmanager
def hurrying(database: str) -> Iterator[None]:
    with transaction.atomic(using=database), connections[database].cursor() as cursor:
        cursor.execute(HURRY)
        before, _ = cursor.fetchone()
        yield
        cursor.execute(AS_BEFORE, [before])  # the transaction may be the caller's


def of(alert: Alert, seen: Seen) -> Iterator[Remark]:
    """Yield the remarks of one kind, with its name and level."""
    level, value = chosen(alert)
    if level != OFF:
        for remark in alert.look(seen, value):
            yield remark._replace(kind=alert.kind, level=level)


def alone(alert: Alert, seen: Seen) -> list[Remark]:
    """Return the remarks of one kind; if they cannot be found, that is a problem."""
    try:
        with hurrying(seen.database):
            return list(of(alert, seen))
    except DatabaseError as error:
        logger.warning("Cannot look for kind=%s: %s", alert.kind, text_of(error))
        text = gettext("pgjobs cannot look for %(kind)s: %(error)s")
        values = {"kind": alert.kind, "error": text_of(error)}
        return [Remark(text % values, kind=alert.kind)]


LOOKS = (found,)
__all__ = ["ALERTS", "LOOKS"]
