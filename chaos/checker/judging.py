"""Judge the evidence by every verdict there is."""

from . import (  # noqa: F401
    crowds,
    durability,
    effects,
    families,
    lines,
    lives,
    outbox,
    rates,
    suspended,
    waits,
)
from .evidence import Evidence
from .verdicts import VERDICTS, Judged


def judge(evidence: Evidence) -> list[Judged]:
    return [Judged(each, list(each.judge(evidence))) for each in VERDICTS]
