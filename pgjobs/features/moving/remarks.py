"""What operators should know about moves and the ids of several databases."""

from datetime import timedelta

from django.db.models import Count, Q
from django.utils.translation import gettext, ngettext

from ...base.database_choice import queue_databases
from ...base.moments import instant
from ...conf import positive_seconds
from ...reports.reading import rows_of
from ...reports.remarks import Alert, Remark, Seen
from ..desk.limits import share
from .id_blocks import SIZE, block_of, use_of_block
from .tables import Move

LONGEST_MOVE = timedelta(minutes=10)
MOST_OF_BLOCK = 0.9  # of its ids; then the database needs another block


def move_problems(seen: Seen, longest: float) -> list[Remark]:
    """Return moves that were cut off: nothing else shows their jobs."""
    now = seen.now
    moves = Move.objects.using(seen.database).filter(arrived_at=None)
    late = moves.filter(begun_at__lt=now - timedelta(seconds=longest))
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
        noticed.append(Remark(text % values, subject=str(move.pk)))
    return noticed


def block_problems(seen: Seen, most: float) -> list[Remark]:
    """Say so if the database soon draws ids that may be those of another one."""
    database = seen.database
    if len(queue_databases()) == 1:
        return []
    block, used = use_of_block(database)
    if used < most:
        return []
    text = gettext(
        "This database has used %(percent)d %% of the ids of block %(block)d. Those "
        "that follow may be ids of another database. Give it a higher block that no "
        "database has or had: manage.py shardids --database %(database)s --block N."
    )
    values = {"percent": used * 100, "block": block, "database": database}
    return [Remark(text % values)]


def sequence_problems(seen: Seen, _) -> list[Remark]:
    """Say so if sequences are behind, as where logical replication has brought rows."""
    database = seen.database
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


ALERTS = (
    Alert(
        "move_unfinished",
        "A move to another database has not ended for this time.",
        move_problems,
        value=LONGEST_MOVE.total_seconds(),
        read=positive_seconds,
    ),
    Alert(
        "ids_used_up",
        "Of several databases, this one has used this share of its block of ids.",
        block_problems,
        value=MOST_OF_BLOCK,
        read=share,
    ),
    Alert(
        "sequences_behind",
        "Sequences are behind their rows, as after a logical replication.",
        sequence_problems,
    ),
)
