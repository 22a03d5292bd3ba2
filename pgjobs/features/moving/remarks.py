"""What operators should know about moves and the ids of several databases."""

from datetime import datetime, timedelta

from django.db.models import Count, Q
from django.utils.translation import gettext, ngettext

from ...base.database_choice import queue_databases
from ...base.moments import instant
from ...reports.reading import rows_of
from ...reports.remarks import Remark, Seen
from .id_blocks import SIZE, block_of, use_of_block
from .tables import Move

LONGEST_MOVE = timedelta(minutes=10)
MOST_OF_BLOCK = 0.9  # of its ids; then the database needs another block


def remarks(seen: Seen) -> list[Remark]:
    return [
        *move_problems(seen.database, seen.now),
        *block_problems(seen.database),
        *sequence_problems(seen.database),
    ]


def move_problems(database: str, now: datetime) -> list[Remark]:
    """Return moves that were cut off: nothing else shows their jobs."""
    moves = Move.objects.using(database).filter(arrived_at=None)
    late = moves.filter(begun_at__lt=now - LONGEST_MOVE)
    jobs = Count("parcels", filter=Q(parcels__table="pgjobs_job"))
    noticed = []
    for move in late.annotate(jobs=jobs).order_by("begun_at")[:100]:
        text = ngettext(
            "A move to %(database)s has not ended for %(minutes)d minutes, and "
            "%(number)d job waits in it: run movejobs again.",
            "A move to %(database)s has not ended for %(minutes)d minutes, and "
            "%(number)d jobs wait in it: run movejobs again.",
            move.jobs,
        )
        values = {
            "database": move.destination,
            "minutes": (now - instant(move.begun_at)).total_seconds() / 60,
            "number": move.jobs,
        }
        noticed.append(Remark(text % values))
    return noticed


def block_problems(database: str) -> list[Remark]:
    """Say so if the database soon draws ids that may be those of another one."""
    if len(queue_databases()) == 1:
        return []
    block, share = use_of_block(database)
    if share < MOST_OF_BLOCK:
        return []
    text = gettext(
        "This database has used %(percent)d %% of the ids of block %(block)d. Those "
        "that follow may be ids of another database. Give it a higher block that no "
        "database has or had: manage.py shardids --database %(database)s --block N."
    )
    values = {"percent": share * 100, "block": block, "database": database}
    return [Remark(text % values)]


def sequence_problems(database: str) -> list[Remark]:
    """Say so if sequences are behind, as where logical replication has brought rows."""
    beyond = (block_of(database) + 1) * SIZE
    names = [
        name for (name,) in rows_of(database, "sequences_behind", {"beyond": beyond})
    ]
    if not names:
        return []
    text = gettext(
        "Sequences are behind their rows, as after a logical replication: %(names)s. "
        "New jobs would fail, or overtake others. The page on high availability says "
        "how to set them."
    )
    return [Remark(text % {"names": ", ".join(names)})]
