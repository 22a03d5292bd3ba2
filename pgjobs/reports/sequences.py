"""Sequences that give numbers which rows have already."""

from django.utils.translation import gettext

from ..queue.id_blocks import SIZE, block_of
from .reading import rows_of
from .remarks import Remark


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
