"""Spans of time can be merged, cut out of each other, and met."""

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from chaos.checker.spans import Span, longest, merged, overlaps, without

TIMES = st.integers(0, 30)
SPANS = st.lists(
    st.tuples(TIMES, TIMES).filter(lambda pair: pair[0] < pair[1]), max_size=6
).map(lambda pairs: [Span(*pair) for pair in pairs])


def moments(spans: list[Span]) -> set[int]:
    """Return the whole seconds that the spans cover."""
    return {time for span in spans for time in range(span.begin, span.end)}


@given(SPANS)
def test_merged_spans_cover_the_same_time_and_are_apart(spans):
    found = merged(spans)
    assert moments(found) == moments(spans)
    assert all(a.end < b.begin for a, b in itertools.pairwise(found))


@given(SPANS, SPANS)
def test_what_is_left_is_outside_of_what_was_removed(spans, removed):
    left = without(spans, merged(removed))
    assert moments(left) == moments(spans) - moments(removed)


@given(SPANS, st.integers(1, 4))
def test_overlaps_are_the_times_of_at_least_so_many_spans(spans, number):
    counted = Counter(time for span in spans for time in moments([span]))
    crowded = {time for time, count in counted.items() if count >= number}
    assert moments(overlaps(spans, number)) == crowded


def test_longest_common_time():
    assert longest([Span(0, 4), Span(10, 20)], [Span(2, 13), Span(15, 19)]) == 4
    assert longest([Span(0, 1)], [Span(2, 3)]) <= 0
    assert longest([], [Span(0, 1)]) == 0
