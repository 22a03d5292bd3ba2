"""No statement of a worker reads more beside a crowd of rows that do not concern it.

`python -m benchmarks.ten_thousand` does the same with ten thousand of everything.
"""

import pytest

from benchmarks import crowds
from pgjobs.base.connections import connect
from tests.processes import shared_queue

pytestmark = shared_queue

NUMBER, WAITING = 1_000, 10_000


@pytest.fixture
def own():
    """A connection of a worker, and empty tables afterwards."""
    with connect("default", "test", "crowds") as connection:
        yield connection
        crowds.empty(connection)


KNOWN: dict[str, int] = {}


@pytest.fixture
def few(own) -> dict[str, int]:
    """What each statement reads beside hardly anything; it is measured once."""
    if not KNOWN:
        KNOWN.update(blocks_beside(own, "", 1, 1))
    return KNOWN


def blocks_beside(own, crowd: str, number: int, waiting: int) -> dict[str, int]:
    crowds.fill(own, crowd, number, waiting)
    return dict(crowds.measured(own))


@pytest.mark.parametrize("crowd", crowds.CROWDS)
def test_statement_reads_no_more_beside_a_crowd(own, few, crowd):
    many = blocks_beside(own, crowd, NUMBER, WAITING)
    grown = {
        name: (few[name], many[name])
        for name in few
        if many[name] > crowds.bound(crowd, name, few[name], NUMBER)
    }
    assert grown == {}
