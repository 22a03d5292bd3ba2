"""Spans of time, and what is left of them."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans that cover the same time, in order, and do not touch."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.begin <= found[-1].end:
            found[-1] = Span(found[-1].begin, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def overlaps(spans: Iterable[Span], number: int) -> list[Span]:
    """Return when at least so many of the spans lasted at a time."""
    changes = [change for begin, end in spans for change in ((begin, 1), (end, -1))]
    found, depth, since = [], 0, None
    for time, change in sorted(changes):
        depth += change
        if since is None and depth >= number:
            since = time
        elif since is not None and depth < number:
            found.append(Span(since, time))
            since = None
    return found


def without(spans: Iterable[Span], removed: Sequence[Span]) -> list[Span]:
    """Return what is left of the spans outside of others, which must be merged."""
    left = []
    for span in spans:
        begin = span.begin
        # Most are elsewhere.
        for hole in removed[bisect_left(removed, begin, key=lambda each: each.end) :]:
            if hole.begin >= span.end:
                break
            left.append(Span(begin, hole.begin))
            begin = hole.end
        left.append(Span(begin, span.end))
    return [span for span in left if span.seconds > 0]


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
