"""Judge the evidence by every verdict there is."""

from . import crowds, durability, effects, lives, outbox, waits  # noqa: F401
from .evidence import Evidence
from .verdicts import VERDICTS, Judged


def judge(evidence: Evidence) -> list[Judged]:
    return [Judged(each, list(each.judge(evidence))) for each in VERDICTS]
