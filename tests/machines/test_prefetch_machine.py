"""Jobs that wait in a worker are not lost, not starved, and pay for no crash."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from pgjobs import enqueue_many
from pgjobs.models import Attempt, Job, Worker
from pgjobs.queue.claiming import ClaimedJob, first_fetch
from pgjobs.queue.recording import release
from tests import tasks
from tests.actors import Hand, admit
from tests.processes import shared_queue

SLOTS = 3
WORKERS = st.sampled_from([0, 1])
# Each kind of job, with whether it may wait in a worker.
KINDS = {
    "short": (tasks.noop.bind, True),
    "of another task": (tasks.add.bind, True),
    "with a lock": (tasks.noop.using(lock="door").bind, False),
    "with a limit": (tasks.noop.using(limit_key="key", max_running=9).bind, False),
    "with units": (tasks.noop.using(process_units=2).bind, False),
    "fails by the second crash": (tasks.noop.using(max_crashes=2).bind, False),
    "fails by a crash": (tasks.noop.using(max_crashes=1).bind, False),
}
ARGUMENTS = {"of another task": (1,)}


class Holder:
    """A worker with slots, which runs nothing by itself."""

    def __init__(self) -> None:
        self.hand = Hand("holder")
        self.running: list[ClaimedJob] = []
        self.waiting: list[ClaimedJob] = []

    @property
    def free(self) -> int:
        alone = any(job.is_last_chance for job in self.running)
        held = len(self.running) + len(self.waiting)
        return 0 if alone and held else max(SLOTS - held, 0)

    def claim(self, most: int) -> list[ClaimedJob]:
        """Claim for the free slots, and prefetch; the jobs begin in claim order."""
        admit()
        is_alone = any(job.is_last_chance for job in self.running)
        limit = self.free
        prefetched = 0 if is_alone else most
        jobs = self.hand.record_and_claim(
            limit=limit,
            fetch=first_fetch(limit + most),
            is_idle=not (self.running or self.waiting),
            prefetched=prefetched,
        ).jobs
        self.running += jobs[:limit]
        self.waiting += jobs[limit:]
        return jobs

    def end_one(self) -> None:
        if self.running:
            assert self.hand.succeed(self.running.pop(0))
            self.begin_waiting()

    def begin_waiting(self) -> None:
        while self.waiting and len(self.running) < SLOTS:
            self.running.append(self.waiting.pop(0))

    def give_back(self) -> None:
        released = [release(job, "Released.") for job in self.waiting]
        if released:
            assert {each.status for each in self.hand.record(*released)} == {"READY"}
        self.waiting = []


class Prefetches(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        for model in (Job, Worker, Attempt):
            model.objects.all().delete()
        self.kind_of: dict[int, str] = {}
        self.deaths = Counter()  # of the processes in which a job had begun, by job
        self.losses = Counter()  # of the processes in which it still waited
        self.holders = [Holder(), Holder()]

    @rule(kinds=st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=8))
    def enqueue(self, kinds):
        bound = [KINDS[kind][0](*ARGUMENTS.get(kind, ())) for kind in kinds]
        jobs = enqueue_many(bound)
        self.kind_of |= {job.pk: kind for job, kind in zip(jobs, kinds, strict=True)}

    @rule(worker=WORKERS, most=st.integers(1, 9))
    def claim(self, worker, most):
        holder = self.holders[worker]
        free = holder.free
        attempted = set(Job.objects.filter(attempts__gt=0).values_list("pk", flat=True))
        jobs = holder.claim(most)
        prefetched = jobs[free:]
        assert len(prefetched) <= most
        for job in prefetched:
            assert KINDS[self.kind_of[job.id]][1], self.kind_of[job.id]
            assert job.id not in attempted
        if len(jobs) < free and not any(job.is_last_chance for job in jobs):
            ready = Job.objects.ready()
            assert (
                not ready.exists()
                or ready.filter(crashes__gt=0).exists()
                or (ready.filter(max_crashes=1).exists())
            )

    @rule(worker=WORKERS)
    def end_one(self, worker):
        self.holders[worker].end_one()

    @rule(worker=WORKERS)
    def give_back(self, worker):
        self.holders[worker].give_back()

    @rule(worker=WORKERS)
    def kill(self, worker):
        killed, other = self.holders[worker], self.holders[1 - worker]
        before = self.crashes()
        killed.hand.vanish()
        other.hand.rescue()
        self.holders[worker] = Holder()
        after = self.crashes()
        for job in killed.waiting:
            self.losses[job.id] += 1
            assert after[job.id] == before[job.id]
        for job in killed.running:
            self.deaths[job.id] += 1
            assert after[job.id] > before[job.id] or self.losses_unknown(job.id)
        for id, crashes in after.items():
            assert crashes <= self.deaths[id] + self.losses[id]
        self.check_failures()

    def losses_unknown(self, id: int) -> bool:
        """Whether the job began after it had waited, which only its worker knew."""
        return Job.objects.get(pk=id).attempts == 1

    def crashes(self) -> dict[int, int]:
        return dict(Job.objects.values_list("pk", "crashes"))

    def check_failures(self):
        """No job fails before its processes have died as often as it may crash."""
        for job in Job.objects.all():
            died = self.deaths[job.pk] + self.losses[job.pk]
            assert (job.status == "FAILED") <= (died >= job.max_crashes)
            # Nor may one that kills its process go on after that.
            assert self.deaths[job.pk] <= job.max_crashes

    def teardown(self):
        """A free worker finds whatever the others have left."""
        for holder in self.holders:
            holder.give_back()
            while holder.running:
                holder.end_one()
        for _ in range(1_000):
            holder = self.holders[0]
            holder.claim(5)
            if not holder.running:
                break
            while holder.running:
                holder.end_one()
        left = set(Job.objects.values_list("status", flat=True))
        assert left <= {"SUCCESSFUL", "FAILED"}


@pytest.mark.slow
@shared_queue
def test_prefetched_jobs_are_neither_lost_nor_starved_nor_blamed():
    run_state_machine_as_test(
        Prefetches,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
