"""Thousands of jobs of one line that end in one statement: no stack, no error."""

import re
from collections.abc import Callable
from datetime import timedelta
from itertools import product

import pytest
from django.utils import timezone

from pgjobs import chain, enqueue, enqueue_many, group
from pgjobs.models import Job
from pgjobs.queue import admitting, upkeep
from tests.actors import Hand, admit, execute, leave_out_triggers, session
from tests.processes import ROOT, shared_queue
from tests.queue.test_admission import reads
from tests.tasks import noop

pytestmark = shared_queue

MANY = 2_100  # functions that call each other bear a tenth of it

LINES: dict[str, dict] = {
    "lock": {"lock": "door"},
    "mutex": {"lock": "door", "lock_mode": "mutex"},
    "limit": {"max_running": 1},
    "rate": {"rate": "1/hour"},
}


def make_line(kind: str) -> None:
    """Make that many jobs of one lock, limit, rate, batch or predecessor."""
    if kind == "batch":
        enqueue(group([noop.bind() for _ in range(MANY)], then=noop.bind()))
    elif kind == "chain":
        enqueue(chain(*[noop.bind() for _ in range(MANY // 2)]))
    elif kind == "predecessor":
        first = enqueue(noop)
        enqueue_many([noop.using(after=first).bind() for _ in range(MANY)])
    else:
        enqueue_many([noop.using(**LINES[kind]).bind() for _ in range(MANY)])


def expire() -> None:
    Job.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    while upkeep.expire(execute):
        continue


ENDS: dict[str, Callable[[], object]] = {
    "cancel": lambda: Job.objects.cancel(),
    "fail": lambda: Job.objects.fail(),
    "delete": lambda: Job.objects.all().delete(),
    "discard": lambda: Job.objects.discard(),
    "expire": expire,
}
UNFINISHED = ("READY", "SCHEDULED", "WAITING", "RUNNING")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "end"),
    [*product([*LINES, "batch", "predecessor"], ENDS), ("chain", "cancel")],
)
def test_whole_long_line_ends_in_one_statement(kind, end):
    Hand()  # it serves the queue
    make_line(kind)
    admit()
    ENDS[end]()
    admit()
    assert not Job.objects.filter(status__in=UNFINISHED).exists()
    if end in ("cancel", "fail"):
        assert Job.objects.retry().skipped == 0
        admit()
        assert Job.objects.ready().exists() or kind == "rate"
        assert Job.objects.cancel().skipped == 0


ACTS = [
    *(ROOT / "pgjobs/sql/app").glob("*.sql"),
    *(ROOT / "pgjobs/features").glob("*/*.sql"),
    *(ROOT / "pgjobs/database/functions/transitions").glob("*.sql"),
]


@pytest.mark.parametrize("path", ACTS, ids=lambda path: path.stem)
def test_no_act_joins_the_rows_that_it_has_locked(path):
    """Where the planner expects few rows, such a join compares each with all jobs.

    A cancel of 8,000 jobs took 51 seconds.
    """
    text = path.read_text()
    for name in re.findall(r"(\w+) AS MATERIALIZED", text):
        assert not re.search(rf"FROM {name}\s+WHERE job\.id = {name}\.id", text)


# Jobs that ended long ago, each cancelled because of the next one, and their links.
PAST = """
INSERT INTO pgjobs_job
    (id, task, status, attempts, started_at, finished_at, blocked_by_id, keys)
SELECT 1000000 + n, 'tests.noop', 'CANCELLED', 1, now(), now(), 1000001 + n,
    jsonb_build_object('after', jsonb_build_array(1000001 + n))
FROM generate_series(1, 20000) AS n;
INSERT INTO pgjobs_predecessor (job_id, predecessor_id, is_open)
SELECT 1000000 + n, 1000001 + n, false FROM generate_series(1, 19999) AS n
"""


@pytest.mark.parametrize("statistics", ["", "ANALYZE pgjobs_job, pgjobs_predecessor"])
def test_retry_reads_no_more_beside_thousands_of_cancelled_jobs(statistics):
    enqueue(chain(noop.bind(), noop.using(lock="door").bind()))
    Job.objects.cancel()
    admit()
    ids = list(Job.objects.values_list("pk", flat=True))
    leave_out_triggers("pgjobs_job")
    execute(PAST)
    execute("ALTER TABLE pgjobs_job ENABLE TRIGGER USER")
    if statistics:
        execute(statistics)
    text = "SELECT pgjobs_retry_jobs(%(ids)s)"
    assert reads(lambda execute: execute(text, {"ids": ids})) < 50
    assert not Job.objects.filter(pk__in=ids, status="CANCELLED").exists()


READ = """
SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables
WHERE relname IN ('pgjobs_job', 'pgjobs_predecessor')
"""


# In this index successors stand by their predecessor; from another one that has the
# columns all entries would be read.
LOOKS = "SELECT pg_stat_get_xact_numscans('pgjobs_predecessor_jobs'::regclass)"


def rows_read_by_retry(jobs: list[Job]) -> int:
    """Return how many rows of jobs and links it reads, one after the other as well."""
    ids = [job.pk for job in jobs]
    execute("ANALYZE pgjobs_job, pgjobs_predecessor")
    with session() as own:
        own.begin()
        ((before,),) = own.execute(READ)
        own.execute("SELECT pgjobs_retry_jobs(%(ids)s)", {"ids": ids})
        ((after,),) = own.execute(READ)
        assert own.execute(LOOKS)[0][0] >= len(ids)
        own.commit()
    assert not Job.objects.filter(pk__in=ids, status="CANCELLED").exists()
    return after - before


def test_retry_reads_no_more_links_where_one_job_has_most_of_them():
    """The planner expects as many of each job. 50,000 jobs took ten minutes."""
    Hand()
    first = enqueue(noop)
    jobs = enqueue_many([noop.using(after=first).bind() for _ in range(MANY)])
    admit()
    Job.objects.cancel()
    admit()
    plain = enqueue_many([noop.bind() for _ in range(100)])
    Job.objects.cancel()
    assert rows_read_by_retry([*jobs[-100:], *plain]) < 20 * 200


def test_admission_reads_no_links_of_others_although_hardly_any_was_open():
    """The planner expects that of all links, and read all open ones for each job."""
    Hand()
    first = enqueue(noop)
    enqueue_many([noop.using(after=first).bind() for _ in range(MANY)])
    admit()
    Job.objects.cancel()
    admit()
    execute("VACUUM ANALYZE pgjobs_predecessor")
    assert Job.objects.retry().changed == MANY + 1
    with session() as own:
        own.begin()
        ((before,),) = own.execute(READ)
        admitting.admit(own.execute)
        ((after,),) = own.execute(READ)
        own.commit()
    assert after - before < 50 * admitting.MOST_ADMITTED


def test_retry_reads_no_more_beside_thousands_of_ready_jobs():
    jobs = enqueue(chain(*[noop.bind() for _ in range(100)]))
    Job.objects.cancel()
    admit()
    enqueue_many([noop.bind() for _ in range(MANY)])
    assert rows_read_by_retry(jobs) < 20 * 100
