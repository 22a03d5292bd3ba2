"""Outcomes of failures of the same kind, which two workers store."""

from tests import tasks
from tests.actors import session
from tests.processes import shared_queue
from tests.worker.test_recorder import desk, end_of, failure  # noqa: F401

pytestmark = shared_queue

INSERT_GROUP = """
INSERT INTO pgjobs_errorgroup (id, task, exception_class, place, message, version)
VALUES (7, 'tests.noop', '', '', '', '')
"""


def test_outcome_that_waits_for_a_lock_elsewhere_leaves_the_others_alone(desk):  # noqa: F811
    """Another worker stores the first failure of the same kind, and does not end."""
    first, second = desk.begin(*[tasks.noop.bind()] * 2)
    with session() as other:
        other.begin()
        other.execute(INSERT_GROUP)
        desk.end(failure(first, error_group=7), failure(second))
        assert end_of(second) == "FAILED"
        assert desk.in_flight.failing == {first.lease_token}
        other.commit()
    desk.run_pass_after_pauses()
    assert end_of(first) == "FAILED"
