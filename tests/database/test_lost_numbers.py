"""Numbers that a lost server may have given are not given again."""

from tests.actors import execute
from tests.processes import shared_queue

pytestmark = shared_queue


def forget_timeline() -> None:
    """Leave the sequences as a standby has them that has just taken over."""
    execute("SELECT setval('pgjobs_known_timeline', 4711)")


def timeline() -> str:
    return execute("SELECT pgjobs_timeline()")[0][0]


def numbers() -> tuple[int, int]:
    ((token, worker),) = execute(
        "SELECT pgjobs_lease_token.last_value, pgjobs_worker_id_seq.last_value"
        " FROM pgjobs_lease_token, pgjobs_worker_id_seq"
    )
    return token, worker


def test_sequences_move_on_once_for_each_timeline(transactional_db):
    timeline()
    token, worker = numbers()
    assert timeline() == timeline()
    assert numbers() == (token, worker)
    forget_timeline()
    timeline()
    assert numbers()[0] - token >= 2**32
    assert numbers()[1] - worker >= 1000
    after = numbers()
    timeline()
    assert numbers() == after
