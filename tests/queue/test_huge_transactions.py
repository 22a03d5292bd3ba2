"""A huge transaction holds up no job with other keys, whichever worker admits it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pgjobs import enqueue
from pgjobs.queue import admitting
from tests.actors import Hand, Session, execute, in_thread, session
from tests.processes import shared_queue, wait_for
from tests.queue.test_admission import reads
from tests.tasks import noop

pytestmark = shared_queue

INSERT = """
INSERT INTO pgjobs_job (task, queue_name, keys, priority)
SELECT 'tests.noop', 'bulk', replace(%(keys)s, '%%n', n::text)::jsonb,
    CASE n WHEN 1 THEN -100 ELSE 0 END
FROM generate_series(1, 1250) AS n
"""
KEYS = (
    '{"lock": "bulk %n"}',
    '{"lock": "bulk mutex %n", "is_ordered": false}',
    '{"limit_key": "bulk %n", "max_running": 1}',
    '{"rate_key": "bulk %n", "rate_interval": 3600, "rate_burst": 1}',
)
OTHERS = (
    {"lock": "other"},
    {"lock": "other mutex", "lock_mode": "mutex"},
    {"max_running": 1, "limit_key": "other"},
    {"rate": "1000/second", "rate_key": "other"},
)
# A commit runs its deferred triggers before any of what it wrote can be seen.
HALT = """
CREATE FUNCTION halt_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(4711);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER halt_commit AFTER INSERT ON pgjobs_job
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.priority = -100) EXECUTE FUNCTION halt_commit()
"""
HALTED = "SELECT 1 FROM pg_locks WHERE NOT granted AND objid = 4711"
MOST_ROWS = 20 * admitting.MOST_ADMITTED  # that one admission reads, whatever waits


# What VACUUM says of a table whose rows are gone while a page of it is left.
SAY_IT_IS_EMPTY = (
    "INSERT INTO pgjobs_job (task) VALUES ('tests.noop')",
    "DELETE FROM pgjobs_job",
    "VACUUM (ANALYZE, TRUNCATE off) pgjobs_job",
)


@pytest.fixture(params=["unknown", "empty"])
def statistics(request) -> None:
    """What the planner has been told of the table of jobs."""
    if request.param == "empty":
        for each in SAY_IT_IS_EMPTY:
            execute(each)
    else:
        execute("TRUNCATE pgjobs_job CASCADE")


@pytest.fixture
def huge(statistics) -> Iterator[Session]:
    """A transaction with thousands of jobs, each of which has a key of its own."""
    execute(HALT)
    try:
        with session() as own:
            own.begin()
            for keys in KEYS:
                own.execute(INSERT, {"keys": keys})
            yield own
    finally:
        execute("DROP FUNCTION halt_commit CASCADE")


@contextmanager
def halted_commit(huge: Session) -> Iterator[None]:
    """Let the transaction commit; its COMMIT goes on when the block is over."""
    with session() as other:
        other.execute("SELECT pg_advisory_lock(4711)")
        with in_thread(huge.commit) as commit:
            try:
                wait_for(lambda: execute(HALTED), "it commits")
                yield
            finally:
                other.execute("SELECT pg_advisory_unlock(4711)")
            commit.result(timeout=60)


def run_other_jobs(hand: Hand) -> None:
    """Run a job of each kind with one admission, as a worker's next pass does."""
    jobs = [enqueue(noop.using(queue_name="other", **keys)) for keys in OTHERS]
    assert reads(admitting.admit) <= MOST_ROWS
    claimed = hand.record_and_claim(limit=len(jobs), queues=["other"]).jobs
    assert {job.id for job in claimed} == {job.pk for job in jobs}
    for job in claimed:
        assert hand.succeed(job)


def test_open_transaction_holds_up_no_job_with_other_keys(huge):
    hand = Hand()
    run_other_jobs(hand)
    with halted_commit(huge):
        run_other_jobs(hand)
    run_other_jobs(hand)
