"""Deleted successes as a state machine: nothing goes that anything needs.

Jobs whose successes are to be deleted run, fail, and lose their workers. Meanwhile
other jobs, callers, parents, schedules and rows of the project begin to need them, in
transactions that stay open for as long as the machine likes.
"""

import json
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
)
from hypothesis.stateful import run_state_machine_as_test as run

from pgjobs import enqueue, enqueue_many, result
from pgjobs.exceptions import InvalidTask
from pgjobs.features.keeping.chore import prune_successes
from pgjobs.features.keeping.successes import MARK, Client
from pgjobs.models import Batch, Job, Predecessor, Schedule, Worker
from pgjobs.queue import claiming, recording
from pgjobs.queue.claiming import ClaimedJob, Success
from pgjobs.queue.slices import OLDEST
from pgjobs.queue.upkeep import ALL_DUE
from tests.actors import Hand, OneByOne, Session, admit, execute, hours
from tests.processes import wait_for
from tests.tasks import echo, noop

briefly = noop.using(keep="failed")
of_period = briefly.using(unique_key="period", unique_for=hours(1))
ACTS = (
    *("come", "come_for_a_period", "come_from_a_parent", "claim", "prune"),
    *(["need"] * 6),
    *("end", "end", "fail", "die"),
    *("begin", "commit", "need_no_more"),
)
# As docs/guides/keep.md says for people who insert from SQL.
NAME = """
WITH held AS MATERIALIZED (
    SELECT id FROM pgjobs_job WHERE id = %(id)s FOR KEY SHARE
)
INSERT INTO pgjobs_job (task, keys)
SELECT 'tests.noop', jsonb_build_object('after', jsonb_build_array(id)) FROM held
"""
REFER = "INSERT INTO tests_paper SELECT id FROM pgjobs_job WHERE id = %(id)s"
SCHEDULE = """
INSERT INTO pgjobs_schedule (name, task, every, last_job_id)
VALUES ('often', 'tests.noop', '1 hour', %(id)s)
ON CONFLICT (name) DO UPDATE SET last_job_id = %(id)s
"""

# The locks of processes that wait for jobs: see features/keeping/functions/needed.sql.
AWAITED = """
SELECT count(*) FROM pg_locks JOIN pg_database ON oid = database
WHERE datname = current_database() AND locktype = 'advisory' AND classid = 1885825635
"""


def existing(*ids: int) -> set[int]:
    return set(Job.objects.filter(pk__in=ids).values_list("pk", flat=True))


class Keeping(RuleBasedStateMachine):
    has_table = False  # of the project, which refers to jobs: each is looked at alone

    def __init__(self) -> None:
        super().__init__()
        for model in (Job, Predecessor, Worker, Batch, Schedule):
            model.objects.all().delete()
        self.hand = Hand()
        self.other = Session()  # of the application
        self.is_open = self.has_died = False
        self.of_period: int | None = None
        self.waiters: dict[int, Session] = {}  # by the job that each waits for
        self.running: dict[int, ClaimedJob] = {}
        self.unfinished: set[int] = set()  # of the jobs to delete
        self.values: dict[int, int] = {}  # what each successor of a result is to get
        if self.has_table:
            execute("CREATE TABLE tests_paper (job_id bigint REFERENCES pgjobs_job)")

    @rule(
        act=st.sampled_from(ACTS),
        number=st.integers(0, 5),
        way=st.sampled_from(["name", "refer", "follow", "wait", "fire"]),
        is_first=st.booleans(),
    )
    def go_on(self, act: str, number: int, way: str, is_first: bool) -> None:
        if act == "need":
            self.need(number, way, is_first)
        elif act in ("end", "commit"):
            getattr(self, act)(is_first)
        else:
            getattr(self, act)(number)

    # Jobs to delete

    def come(self, number: int) -> None:
        jobs = enqueue_many([briefly.bind()] * (1 + number // 2))
        self.unfinished |= {job.pk for job in jobs}
        self.claim(number)

    def come_for_a_period(self, number: int) -> None:
        """A second one is never made, whatever has become of the first."""
        job = enqueue(of_period)
        self.of_period = self.of_period or job.pk
        assert job.pk == self.of_period
        if job.finished_at is None:
            self.unfinished.add(job.pk)
        self.claim(number)

    def come_from_a_parent(self, number: int) -> None:
        """A running job has enqueued it, and may yet wait for it."""
        if parent := self.pick(self.running, number):
            child = enqueue(briefly)
            Job.objects.filter(pk=child.pk).update(meta={"parent_id": parent})
            self.unfinished.add(child.pk)
            self.claim(number)

    def claim(self, number: int) -> None:
        for job in self.hand.claim(1 + number):
            self.running[job.id] = job

    def end(self, claims: bool) -> None:
        """Let half of the running jobs, or one, succeed."""
        jobs = [*self.running.values()]
        self.record(jobs[: (1 + len(jobs)) // 2], claims)

    def record(self, jobs: list[ClaimedJob], claims: bool) -> None:
        """Record successes as a worker does that may delete them."""
        successes = [Success(job.id, job.lease_token, str(job.id)) for job in jobs]
        if not jobs:
            return
        deletable = [each for each in successes if each.id in self.unfinished]
        client = Client(OneByOne(execute), deletable)
        if claims:
            claimed = claiming.record_and_claim(
                client,
                self.hand.id,
                successes=successes,
                limit=1,
                fetch=claiming.first_fetch(1),
                is_idle=True,
            )
            tokens = set(claimed.recorded)
            self.running |= {job.id: job for job in claimed.jobs}
        else:
            recorded = recording.record_successes(
                client.execute, self.hand.id, "hand", successes
            )
            tokens = {each.lease_token for each in recorded}
        assert tokens == {job.lease_token for job in jobs}
        for job in jobs:
            del self.running[job.id]
            self.unfinished.discard(job.id)
        stored = Job.objects.filter(pk__in=[job.id for job in jobs])
        assert set(stored.values_list("status", flat=True)) <= {"SUCCESSFUL"}

    def fail(self, number: int) -> None:
        """Fail one for the first time, so that another attempt follows."""
        first = [id for id, job in self.running.items() if job.attempt == 1]
        if id := self.pick(self.unfinished.intersection(first), number):
            assert self.hand.set_back(self.running.pop(id), "RETRY")

    def die(self, number: int) -> None:
        """Once only: a job has few crashes."""
        if not self.has_died:
            self.has_died = True
            self.hand.vanish()
            self.hand = Hand()
            while self.hand.rescue():
                pass
            self.running.clear()

    def prune(self, number: int = 0) -> None:
        prune_successes(execute, OLDEST, ALL_DUE)

    # What needs them

    def pick(self, ids: Iterable[int], number: int) -> int | None:
        ordered = sorted(ids)
        return ordered[number % len(ordered)] if ordered else None

    def need(self, number: int, way: str, ends_first: bool) -> None:
        """Let something need a running job, which a worker may have recorded first."""
        if id := self.pick(self.running.keys() & self.unfinished, number):
            job = Job.objects.get(pk=id)  # as a caller has it
            if ends_first:
                self.record([self.running[id]], claims=False)
            getattr(self, way)(job)

    def name(self, job: Job) -> None:
        self.other.execute(NAME, {"id": job.pk})

    def refer(self, job: Job) -> None:
        if self.has_table:
            self.other.execute(REFER, {"id": job.pk})

    def begin(self, number: int) -> None:
        """Let what is named and referred to from now on wait for its commit."""
        if not self.is_open:
            self.other.begin()
            self.is_open = True

    def commit(self, commits: bool) -> None:
        if self.is_open:
            self.other.commit() if commits else self.other.rollback()
            self.is_open = False

    def follow(self, job: Job) -> None:
        """Enqueue a successor; it is refused if the job has gone meanwhile."""
        is_there = bool(existing(job.pk))
        try:
            successor = echo.using(after=job).enqueue(result)
        except InvalidTask as error:
            assert "keep='all'" in str(error)
            assert not is_there
        else:
            assert is_there
            self.values[successor.pk] = job.pk

    def wait(self, job: Job) -> None:
        if job.pk not in self.waiters and existing(job.pk):
            session = self.waiters[job.pk] = Session()
            session.execute(MARK, {"id": job.pk})

    def fire(self, job: Job) -> None:
        if existing(job.pk):
            execute(SCHEDULE, {"id": job.pk})

    def need_no_more(self, number: int) -> None:
        Schedule.objects.all().delete()
        if id := self.pick(self.waiters, number):
            self.waiters.pop(id).connection.close()

    # What always holds

    @invariant()
    def what_has_not_succeeded_is_there(self) -> None:
        assert existing(*self.unfinished) == self.unfinished

    @invariant()
    def what_a_process_waits_for_is_there(self) -> None:
        assert existing(*self.waiters) == set(self.waiters)

    @invariant()
    def what_a_schedule_names_is_there(self) -> None:
        for id in Schedule.objects.values_list("last_job_id", flat=True):
            assert existing(id)

    @invariant()
    def what_a_successor_waits_for_is_there(self) -> None:
        for job in Job.objects.filter(status="WAITING", keys__has_key="after"):
            assert existing(*job.keys["after"]) == set(job.keys["after"])

    @invariant()
    def claimed_values_are_there(self) -> None:
        for id, job in self.running.items():
            if id in self.values:
                (end,) = json.loads(job.results)["value"]["ends"]
                assert (end["status"], end["value"]) == ("SUCCESSFUL", self.values[id])

    def teardown(self) -> None:
        """In the end each successor has run, and nothing stays that nothing needs."""
        if self.is_open:
            self.other.commit()
        self.prune_what_has_ended()
        if self.has_table:
            ((papers, referred),) = execute(
                "SELECT count(*), count(id) FROM tests_paper"
                " LEFT JOIN pgjobs_job ON id = job_id"
            )
            assert papers == referred
            execute("DROP TABLE tests_paper")
        self.other.connection.close()
        for session in self.waiters.values():
            session.connection.close()
        wait_for(lambda: execute(AWAITED) == [(0,)], "their sessions have ended")
        Schedule.objects.all().delete()
        self.run_all()
        left = Job.objects.filter(finished_at=None)
        assert not left.exists(), list(left.values("status", "line", "keys"))
        assert not Job.objects.exclude(status="SUCCESSFUL").exists()
        execute(
            "UPDATE pgjobs_job"
            " SET unique_key = NULL, unique_for = NULL, unique_until = NULL"
        )
        self.prune()
        assert not Job.objects.filter(keep="failed").exists()

    def prune_what_has_ended(self) -> None:
        """Let a process wait for one ended job, and a schedule name another one."""
        for way, id in zip(("wait", "fire"), sorted(self.running), strict=False):
            getattr(self, way)(Job.objects.get(pk=id))
        self.record([*self.running.values()], claims=False)
        self.prune()
        self.what_a_process_waits_for_is_there()
        self.what_a_schedule_names_is_there()
        self.what_a_successor_waits_for_is_there()

    def run_all(self) -> None:
        while True:
            Job.objects.filter(status="SCHEDULED").run_now()
            self.claim(20)
            self.claimed_values_are_there()
            if not self.running:
                return
            self.record([*self.running.values()], claims=False)
            admit()


class KeepingWithTable(Keeping):
    has_table = True


@pytest.mark.slow
@pytest.mark.parametrize("machine", [Keeping, KeepingWithTable])
@pytest.mark.django_db(transaction=True, available_apps=["pgjobs", "tests"])
def test_no_success_goes_that_anything_needs_and_none_stays_that_nothing_needs(machine):
    run(
        machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
