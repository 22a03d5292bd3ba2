"""The table of backends is what was measured."""

import json

from benchmarks.conformance import PAGE, RESULTS, WORKERS, with_tables


def test_table_shows_the_results():
    page = PAGE.read_text()
    assert with_tables(page, json.loads(RESULTS.read_text())) == page


def test_table_has_each_backend():
    assert list(json.loads(RESULTS.read_text())) == list(WORKERS)
