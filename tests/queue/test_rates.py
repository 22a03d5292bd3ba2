"""Rates keep their word: never too many starts in any time, and as many as may be."""

import itertools
from bisect import bisect_left
from datetime import timedelta

import pytest
from django.db.models import F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Job, Note, Rate, Worker
from pgjobs.queue import recording
from tests import tasks
from tests.actors import Hand, admit, execute, pass_time, statuses, stored_statuses
from tests.processes import (
    WorkerThread,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)

PERIODS = {"second": 1, "minute": 60, "hour": 3_600}
TINY = 1e-5  # seconds: times are rounded to microseconds


class Clock:
    """A clock that tests turn forward, and the starts of jobs by this clock."""

    def __init__(self):
        for model in (Job, Worker, Note, Rate):
            model.objects.all().delete()
        self.hand = Hand("one")
        self.passed = 0.0
        self.starts = []
        self.started = {}  # by lease token
        self.running = []

    def wait(self, seconds: float) -> None:
        pass_time(seconds)
        Job.objects.running().update(
            last_attempted_at=F("last_attempted_at") - timedelta(seconds=seconds)
        )
        self.passed += seconds

    def claim(self, number: int) -> None:
        self.saw(self.hand.claim(number))

    def saw(self, claimed) -> None:
        for job in claimed:
            at = Job.objects.get(pk=job.id).last_attempted_at.timestamp()
            self.starts.append(at + self.passed)
            self.started[job.lease_token] = at + self.passed
            self.running.append(job)

    def end(self, verdict: str) -> None:
        if self.running:
            self.hand.set_back(self.running.pop(), verdict)

    def give_back(self, place: int) -> None:
        """Release a job before its body has begun: it has not started."""
        if place < len(self.running):
            job = self.running.pop(place)
            self.starts.remove(self.started[job.lease_token])
            self.hand.set_back(job, "RELEASE", has_begun=False)

    def opens_in(self) -> float:
        ((seconds,),) = execute(
            "SELECT extract(epoch FROM min(opens_at) - clock_timestamp())::float8"
            " FROM pgjobs_rate"
        )
        return max(seconds or 0, 0)


def most_within(starts: list[float], seconds: float) -> int:
    """Return how many starts a half-open time of this length has at most."""
    starts = sorted(starts)
    return max(
        bisect_left(starts, start + seconds - TINY) - place
        for place, start in enumerate(starts)
    )


def check(starts: list[float], number: int, period: float, burst: int) -> None:
    if not starts:
        return
    assert most_within(starts, period) <= number
    for k in range(1, 2 * number + 1):
        assert most_within(starts, k * period / number) <= burst + k - 1


@st.composite
def rates(draw):
    number = draw(st.integers(1, 12))
    return number, draw(st.sampled_from([*PERIODS])), draw(st.integers(1, number))


ACTS = st.one_of(
    st.tuples(st.just("wait"), st.floats(0, 1.3)),  # in periods
    st.tuples(st.just("wait"), st.floats(0, 0.1)),
    st.tuples(st.just("enqueue"), st.integers(1, 15)),
    st.tuples(st.just("claim"), st.integers(1, 15)),
    st.tuples(st.just("end"), st.sampled_from(["FAIL", "RETRY", "RELEASE"])),
    st.tuples(st.just("give back"), st.integers(0, 5)),
    st.tuples(st.just("admit"), st.none()),
)


@pytest.mark.django_db
@given(rate=rates(), acts=st.lists(ACTS, min_size=5, max_size=40))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_time_has_more_starts_than_the_rate_allows(rate, acts):
    number, period, burst = rate
    task = tasks.noop.using(rate=f"{number}/{period}", burst=burst, max_attempts=99)
    clock = Clock()
    enqueue_many([task.bind() for _ in range(2 * number)])
    for act, how in acts:
        match act:
            case "wait":
                clock.wait(how * PERIODS[period])
            case "enqueue":
                enqueue_many([task.bind() for _ in range(how)])
            case "claim":
                clock.claim(how)
            case "end":
                clock.end(how)
            case "give back":
                clock.give_back(how)
            case "admit":
                admit()
    check(clock.starts, number, PERIODS[period], burst)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("number", "period", "burst"),
    [
        (10, "minute", 10),
        (10, "minute", 1),
        (10, "minute", 4),
        (7, "hour", 3),
        (50, "hour", 50),
        (30, "hour", 1),
    ],
)
def test_as_many_start_in_each_period_as_the_rate_allows(number, period, burst):
    task = tasks.noop.using(rate=f"{number}/{period}", burst=burst)
    clock, seconds = Clock(), PERIODS[period]
    enqueue_many([task.bind() for _ in range(4 * number)])
    while len(clock.starts) < 3 * number:
        before = len(clock.starts)
        clock.claim(number)
        if len(clock.starts) == before:
            clock.wait(clock.opens_in() + 1e-3)
        admit()
    first = clock.starts[0]
    for place in range(1, 4):
        nth = clock.starts[place * number - 1]
        full = (place - 1 if burst == number else place) * seconds
        assert nth - first <= full * (1 + 1 / 50) + 2
    check(clock.starts, number, seconds, burst)


@pytest.mark.django_db
def test_what_is_admitted_and_stands_ready_counts_as_if_it_started_now():
    task = tasks.noop.using(rate="10/minute")
    clock = Clock()
    enqueue_many([task.bind() for _ in range(40)])
    for _ in range(7):
        admit()
        clock.wait(10)
    admit()
    assert stored_statuses().count("READY") == 10
    clock.claim(40)
    assert len(clock.starts) == 10
    admit()
    clock.claim(40)
    assert len(clock.starts) == 10


@pytest.mark.django_db
def test_older_job_with_a_slower_rate_is_not_overtaken_by_younger_ones():
    clock = Clock()
    slow, fast = [
        tasks.noop.using(rate=rate, rate_key="partner") for rate in ("2/hour", "9/hour")
    ]
    enqueue_many([slow.bind() for _ in range(3)])
    clock.claim(9)
    old = Job.objects.get(status="WAITING")
    for _ in range(5):
        enqueue(fast)
        admit(sweeps=False)
        clock.claim(9)
        assert len(clock.starts) == 2
        clock.wait(60)
    clock.wait(3_600)
    clock.claim(1)
    old.refresh_from_db()
    assert old.status == "RUNNING"


@pytest.mark.django_db
def test_rate_that_a_deploy_raises_opens_at_once():
    clock = Clock()
    enqueue(tasks.noop.using(rate="1/day"))
    clock.claim(1)
    clock.wait(2)
    enqueue_many([tasks.noop.using(rate="100/second").bind() for _ in range(50)])
    clock.claim(50)
    assert len(clock.starts) == 51


@pytest.mark.django_db
@pytest.mark.parametrize("burst", [1, 10])
def test_rate_opens_within_its_period_after_the_clock_was_set_back(burst):
    clock = Clock()
    task = tasks.noop.using(rate="10/second", burst=burst)
    enqueue_many([task.bind() for _ in range(30)])
    clock.claim(10)
    admit()
    clock.wait(-86_400)
    admit()
    clock.wait(1.2)
    before = len(clock.starts)
    clock.claim(10)
    assert len(clock.starts) == before + burst


@pytest.mark.django_db
@pytest.mark.parametrize("act", ["cancel", "discard", "fail"])
def test_place_of_a_ready_job_is_free_when_it_will_not_start(act):
    clock = Clock()
    enqueue_many([tasks.noop.using(rate="1/day").bind() for _ in range(2)])
    admit()
    getattr(Job.objects.filter(status="READY"), act)()
    admit(sweeps=False)
    clock.claim(1)
    assert len(clock.starts) == 1


@pytest.mark.django_db
def test_a_key_has_one_short_row_however_many_jobs_start():
    clock = Clock()
    rates = itertools.cycle(["10000/minute", "100/second", "50000/hour"])
    for _ in range(60):
        task = tasks.noop.using(rate=next(rates), rate_key="k")
        enqueue_many([task.bind() for _ in range(5)])
        clock.claim(5)
        clock.wait(20.3)
    assert len(clock.starts) == 300
    admit()
    assert len(Rate.objects.get().starts) < 200


@pytest.mark.django_db
def test_tokens_that_the_last_release_took_count_as_starts():
    clock = Clock()
    enqueue_many([tasks.noop.using(rate="6/hour").bind() for _ in range(6)])
    execute(
        "INSERT INTO pgjobs_rate (key, full_at)"
        " VALUES ('tests.noop', clock_timestamp() + interval '40 min')"
    )
    clock.claim(6)
    assert len(clock.starts) == 2
    clock.wait(3_601)
    clock.claim(6)
    assert len(clock.starts) == 6


@shared_queue
def test_workers_start_no_more_than_the_rate_allows_after_all_slots_were_busy():
    enqueue_many([tasks.noop.using(rate="20/second").bind() for _ in range(70)])
    with running_worker(poll=600, slots=2), running_worker(poll=600, slots=2):
        wait_for_all("SUCCESSFUL")
    starts = [job.last_attempted_at.timestamp() for job in Job.objects.all()]
    check(sorted(starts), 20, 1, 20)


@pytest.mark.django_db
@pytest.mark.parametrize("is_counted", [True, False])
@pytest.mark.parametrize("verdict", ["UNKNOWN", "RELEASE"])
def test_job_released_before_its_body_began_gives_its_place_back(is_counted, verdict):
    clock = Clock()
    enqueue_many([tasks.noop.using(rate="1/day").bind() for _ in range(2)])
    clock.claim(1)
    if is_counted:
        admit()
    clock.hand.set_back(clock.running.pop(), verdict, delay=60, has_begun=False)
    admit(sweeps=False)
    clock.claim(1)
    assert len(clock.starts) == 2


@pytest.mark.django_db
@pytest.mark.parametrize("verdict", ["RELEASE", "SNOOZE", "RETRY"])
def test_job_whose_body_began_has_used_its_place(verdict):
    clock = Clock()
    enqueue_many([tasks.noop.using(rate="1/day").bind() for _ in range(2)])
    clock.claim(1)
    clock.end(verdict)
    admit()
    clock.claim(1)
    assert len(clock.starts) == 1


@pytest.mark.django_db
def test_job_of_a_claim_whose_answer_was_lost_gives_its_place_back():
    clock = Clock()
    job = enqueue(tasks.noop.using(rate="1/day"))
    clock.claim(1)
    clock.hand.record(*recording.orphans(execute, clock.hand.id, []))
    admit(sweeps=False)
    clock.claim(1)
    assert Job.objects.get(pk=job.pk).attempts == 2


@pytest.mark.django_db
def test_place_that_comes_back_late_moves_no_later_starts_closer_together():
    clock = Clock()
    task = tasks.noop.using(rate="60/minute", burst=1)
    enqueue_many([task.bind() for _ in range(3)])
    clock.claim(1)
    late = clock.running.pop()
    clock.wait(10)
    clock.claim(1)
    clock.hand.set_back(late, "RELEASE", delay=600, has_begun=False)
    admit()
    clock.claim(1)
    assert len(clock.starts) == 2
    clock.wait(1.1)
    clock.claim(1)
    assert len(clock.starts) == 3


@pytest.mark.django_db
def test_place_that_comes_back_at_once_lets_the_next_job_start():
    clock = Clock()
    task = tasks.noop.using(rate="60/minute", burst=3)
    enqueue_many([task.bind() for _ in range(5)])
    clock.claim(3)
    for _ in range(2):
        clock.hand.set_back(clock.running.pop(), "RELEASE", delay=600, has_begun=False)
    admit()
    clock.claim(5)
    assert len(clock.starts) == 5


@pytest.mark.django_db
def test_first_starts_of_a_key_count_in_the_order_of_their_times():
    clock, task = Clock(), tasks.noop.using(rate="2/minute")
    enqueue_many([task.bind() for _ in range(2)])
    admit()
    for seconds in (40, 0):  # no admission counts in between
        clock.saw(clock.hand.record_and_claim(limit=1).jobs)
        clock.wait(seconds)
    enqueue(task)
    admit()
    assert 15 < clock.opens_in() <= 20


@shared_queue
@pytest.mark.usefixtures("eager")
def test_worker_that_prefetches_takes_no_place_for_what_no_slot_begins(tmp_path):
    path = str(tmp_path / "held")
    limited = tasks.hold.using(rate="3/day")
    enqueue_many([limited.bind(path) for _ in range(4)])
    Hand()  # serves the queue
    assert statuses() == ["READY"] * 3 + ["WAITING"]
    enqueue(tasks.hold.using(priority=9), path)
    enqueue_many([tasks.noop.using(priority=8).bind() for _ in range(2)])
    with WorkerThread(slots=1, prefetch=5, poll=600) as worker:
        wait_for(lambda: tasks.lines(path), "one has begun")
        assert Job.objects.running().count() == 3, "it prefetches what has no rate"
        assert Job.objects.ready().count() == 3
        worker.loop.stop()
        tasks.let_go(path)
        worker.join()
    with running_worker(slots=1):
        wait_for(lambda: Job.objects.finished().count() == 6, "three of a day have run")
    assert Job.objects.waiting().count() == 1


@shared_queue
def test_worker_that_stops_gives_back_the_places_of_what_no_slot_has_begun(tmp_path):
    path = str(tmp_path / "let go")
    tasks.let_go(path)
    limited = tasks.hold.using(rate="3/day")
    with WorkerThread(slots=2, poll=600) as worker:
        wait_for(lambda: worker.loop.phase == "running", "it has started")
        worker.loop.executor.slots = 0  # they are busy with what was given up
        enqueue_many([limited.bind(path) for _ in range(4)])
        wait_for(lambda: Job.objects.running().count() == 2, "two are claimed")
        worker.loop.stop()
        worker.join()
    assert not Job.objects.running().exists()
    assert not tasks.lines(path)
    with running_worker(slots=1):
        wait_for(lambda: Job.objects.finished().count() == 3, "three have run")
    assert Job.objects.waiting().count() == 1


@shared_queue
def test_worker_gives_back_the_place_of_a_job_whose_task_it_does_not_know():
    unknown, known = [
        enqueue(tasks.noop.using(rate="1/day", rate_key="partner")) for _ in range(2)
    ]
    Job.objects.filter(pk=unknown.pk).update(task="tests.of_the_next_release")
    with running_worker(slots=1):
        wait_for_status(known, "SUCCESSFUL")
