"""Spans of time, and what is left of them."""

from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


def without(spans: Iterable[Span], removed: Iterable[Span]) -> list[Span]:
    """Return what is left of the spans outside of the others."""
    left = list(spans)
    for hole in sorted(removed):
        left = [
            part
            for span in left
            for part in (
                Span(span.begin, min(span.end, hole.begin)),
                Span(max(span.begin, hole.end), span.end),
            )
            if part.seconds > 0
        ]
    return left


def longest(spans: Iterable[Span], others: Iterable[Span]) -> float:
    """Return the seconds of the longest time that is in both."""
    others = list(others)
    return max(
        (
            min(span.end, other.end) - max(span.begin, other.begin)
            for span in spans
            for other in others
        ),
        default=0.0,
    )
