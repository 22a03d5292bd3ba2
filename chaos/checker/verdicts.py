"""The verdicts: one function a promise, which returns what broke it."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from .evidence import Evidence, Violation

Judge = Callable[[Evidence], Iterable[Violation]]


class Verdict(NamedTuple):
    name: str
    promise: str
    judge: Judge


class Judged(NamedTuple):
    verdict: Verdict
    violations: list[Violation]


VERDICTS: list[Verdict] = []


def verdict(name: str, promise: str) -> Callable[[Judge], Judge]:
    """Register a function as the judge of a promise."""

    def register(judge: Judge) -> Judge:
        VERDICTS.append(Verdict(name, promise, judge))
        return judge

    return register
