"""Looking for jobs at marks, while a long transaction keeps what was claimed before."""

from datetime import timedelta

import pytest

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Job, Queue
from pgjobs.queue.claiming import ClaimedJob, Span, Turn, look_back
from pgjobs.worker import claim_cursors as module
from pgjobs.worker.claim_cursors import Marks, spans_beyond
from pgjobs.worker.poll_schedule import Outlook
from tests import tasks
from tests.actors import Hand, execute, session
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)

pytestmark = shared_queue

NEVER = 600.0
PLACE = ("default", 0)
QUEUES = [(name, 0) for name in ("a", "m", "n", "x")]
INSERT = "INSERT INTO pgjobs_job (task) VALUES ('tests.noop')"


@pytest.fixture
def slow(monkeypatch):
    """Every look counts as slow; how often the worker looks back says the test."""
    monkeypatch.setattr(module, "SLOW_SECONDS", -1.0)
    monkeypatch.setattr(module, "SLOW_SECONDS_PER_JOB", 0.0)
    monkeypatch.setattr(module, "LATEST_LOOKS", 1)
    monkeypatch.setattr(module, "LATE_SECONDS", 0.0)

    def every(seconds: float) -> None:
        monkeypatch.setattr(module, "LOOK_BACK_SECONDS", seconds)

    every(NEVER)
    return every


def set_marks(loop) -> None:
    """Return when the worker's looks begin behind all that was enqueued so far."""
    last = Job.objects.values_list("turn", flat=True).get(pk=enqueue(tasks.noop).pk)

    def are_set():
        enqueue(tasks.noop)
        return loop.marks.turns.get(PLACE, 0) >= last

    wait_for(are_set, "there are marks")


def claimed(turn: int, queue_name: str = "default", priority: int = 0) -> ClaimedJob:
    columns = dict.fromkeys(ClaimedJob._fields, 0)
    place = {"queue_name": queue_name, "priority": priority, "turn": turn}
    return ClaimedJob(**{**columns, **place})


# What a worker finds


@pytest.mark.usefixtures("slow")
def test_worker_at_its_marks_runs_new_jobs_of_every_priority_without_looking_back():
    with running_worker(poll=NEVER) as loop:
        set_marks(loop)
        for priority in (-100, -1, 0, 1, 100):
            enqueue(tasks.noop.using(priority=priority))
        wait_for_all("SUCCESSFUL")
        assert loop.marks.spans


@pytest.mark.usefixtures("slow")
def test_worker_at_its_marks_looks_back_when_it_hears_of_another_queue():
    with running_worker(poll=NEVER) as loop:
        set_marks(loop)
        enqueue(tasks.noop.using(queue_name="another"))
        wait_for_all("SUCCESSFUL")


@pytest.mark.usefixtures("slow")
def test_worker_at_its_marks_finds_what_it_promotes():
    with running_worker(poll=NEVER) as loop:
        job = enqueue(tasks.noop.using(run_after=timedelta(seconds=0.3)))
        set_marks(loop)
        wait_for_status(job, "SUCCESSFUL")
        assert loop.marks.spans


@pytest.mark.usefixtures("slow")
def test_nudged_worker_looks_before_its_marks():
    old = enqueue(tasks.noop)
    with running_worker(poll=NEVER) as loop:
        set_marks(loop)
        assert old.retry()
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")
        old.refresh_from_db()
        assert old.status == "READY"
        loop.nudge()
        wait_for_status(old, "SUCCESSFUL")


def test_worker_looks_back_for_what_was_put_back_before_its_marks(slow):
    slow(0.1)
    old = enqueue(tasks.noop)
    with running_worker(poll=NEVER) as loop:
        set_marks(loop)
        assert old.retry()
        wait_for_status(old, "SUCCESSFUL")
        assert loop.marks.spans


@pytest.mark.usefixtures("slow")
def test_worker_that_has_looked_back_once_runs_all_that_was_before_its_marks():
    old = enqueue_many([tasks.noop.bind() for _ in range(30)])
    with running_worker(poll=NEVER, slots=2) as loop:
        set_marks(loop)
        assert Job.objects.filter(pk__in=[job.pk for job in old]).retry().changed == 30
        loop.nudge()
        wait_for_all("SUCCESSFUL")


def test_worker_looks_back_for_what_was_committed_late(slow):
    slow(0.2)
    with session() as late, running_worker(poll=NEVER) as loop:
        late.begin()
        late.execute(INSERT)
        set_marks(loop)
        late.commit()
        wait_for(Job.objects.exclude(status="SUCCESSFUL").exists)
        wait_for_all("SUCCESSFUL")
        assert loop.marks.spans


def test_job_that_must_run_alone_is_not_starved_behind_the_marks(slow):
    slow(0.1)
    old = enqueue(tasks.noop)
    with running_worker(poll=NEVER, slots=4) as loop:
        set_marks(loop)
        Job.objects.filter(pk=old.pk).update(max_crashes=1)
        # They never end all at the same time.
        enqueue_many([tasks.sleep.bind(0.01 * (1 + n % 3)) for n in range(200)])
        assert old.retry()
        wait_for_status(old, "SUCCESSFUL")
        assert Job.objects.ready().exists(), "it did not have to wait for the others"


def test_look_back_names_the_first_job_before_each_mark_and_queues_without_one():
    old, _, locked = (enqueue(tasks.noop) for _ in range(3))
    for name in ("a", "default", "m", "n", "x"):
        enqueue(tasks.noop.using(queue_name=name, priority=3))
    turns = dict(Job.objects.values_list("pk", "turn"))
    mark = turns[locked.pk] + 1
    found, seconds = look_back(execute, {PLACE: mark, ("o", 0): 5})
    assert found == {PLACE: turns[old.pk], ("a", 3): 0, ("m", 3): 0, ("x", 3): 0}
    assert 0 < seconds < 10
    assert (
        look_back(execute, {PLACE: turns[old.pk], **dict.fromkeys(QUEUES, 0)})[0] == {}
    )
    with session() as holder:
        holder.begin()
        holder.execute(
            "SELECT FROM pgjobs_job WHERE id < %(id)s FOR UPDATE", {"id": locked.pk}
        )
        found, _ = look_back(execute, {PLACE: mark})
        assert found[PLACE] == turns[locked.pk]


def test_drain_ends_only_after_a_look_at_everything(slow):
    slow(0.1)
    enqueue_many([tasks.noop.bind() for _ in range(200)])
    assert drain(slots=4).finished == 200
    outlook = Outlook(poll=NEVER)
    nothing = Turn(set(), False, None, False, False, False, 0.1, [])
    outlook.plan(nothing, limit=4, promoted=False, look_back_at=1.0)
    assert not outlook.is_empty
    assert outlook.next_look == 1.0
    outlook.plan(nothing, limit=4, promoted=False)
    assert outlook.is_empty


# What a look at marks brings


def test_look_at_marks_brings_the_same_in_the_same_order():
    for priority in (0, 5, -5, 0, 5, -5):
        enqueue(tasks.noop.using(priority=priority))
    marks = {("default", 0): 0, ("default", -5): 0}
    everywhere = Hand("one").record_and_claim(limit=9).jobs
    Job.objects.update(status="READY", worker=None)
    at_marks = (
        Hand("two").record_and_claim(limit=9, spans=list(spans_beyond(marks))).claimed
    )
    assert [job.id for job in at_marks] == [job.id for job in everywhere]
    assert [job.priority for job in at_marks] == [5, 5, 0, 0, -5, -5]


def test_look_at_marks_takes_no_more_of_a_limited_queue_than_there_is_room_for():
    Queue.objects.create(name="default", max_running=1)
    for priority in (0, 5, -5):
        enqueue(tasks.noop.using(priority=priority))
    spans = list(spans_beyond({("default", 0): 1, ("default", -5): 10**9}))
    brought = Hand("one").record_and_claim(limit=9, spans=spans)
    assert [job.priority for job in brought.jobs] == [5]
    assert brought.met_locked
    assert not Hand("two").record_and_claim(limit=9, spans=spans).jobs


# When there are marks


@pytest.fixture
def clock(monkeypatch):
    """The time of the marks; it passes when the test says so."""
    time = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: time[0])

    def passes(seconds: float) -> None:
        time[0] += seconds

    return passes


def slow_marks() -> Marks:
    """Return those of a worker whose looks have been slow of late."""
    marks = Marks()
    for _ in range(20):
        marks.looked_everywhere(0.01, claimed=1)
    return marks


def look_slowly(marks: Marks, turn: int) -> None:
    marks.looked_everywhere(0.01, claimed=1)
    marks.reached([claimed(turn)])


def marked(clock) -> Marks:
    """Return marks that the worker has, and has just looked back for."""
    marks = slow_marks()
    for turn in range(5):
        look_slowly(marks, turn)
        clock(1.0)
    marks.looked_back({}, 0.01)
    assert marks.turns == {PLACE: 3}
    assert not marks.must_look_back
    return marks


def test_marks_follow_what_was_claimed_a_while_ago(clock):
    marks = slow_marks()
    look_slowly(marks, 1)
    clock(0.9)
    look_slowly(marks, 2)
    assert marks.spans is None
    clock(0.2)
    look_slowly(marks, 3)
    clock(1.0)
    look_slowly(marks, 4)
    assert marks.turns == {PLACE: 3}
    assert marks.spans == [
        Span("default", 100, 1, 0),
        Span("default", 0, 0, 3),
        Span("default", -1, -100, 0),
    ]


def test_worker_looks_back_every_two_seconds_or_at_the_first_doubt(clock):
    marks = marked(clock)
    clock(1.9)
    assert not marks.must_look_back
    clock(0.2)
    assert marks.must_look_back
    marks.looked_back({}, 0.01)
    assert not marks.must_look_back
    clock(0.05)
    marks.doubt()
    assert marks.must_look_back


def test_looking_back_in_doubt_takes_no_more_than_a_fifth_of_the_time(clock):
    marks = marked(clock)
    marks.looked_back({}, 10.0)
    clock(39.9)
    marks.doubt()
    assert not marks.must_look_back
    clock(0.2)
    assert marks.must_look_back


def test_mark_moves_back_to_a_job_found_before_it_and_waits_for_those_behind(clock):
    marks = marked(clock)
    marks.looked_back({PLACE: 1}, 0.01)
    assert Span("default", 0, 0, 1) in marks.spans
    clock(1.0)
    marks.reached([claimed(2)])
    assert Span("default", 0, 0, 1) in marks.spans


def test_queue_without_a_mark_gets_one_at_its_beginning(clock):
    marks = marked(clock)
    marks.looked_back({("other", 7): 0}, 0.01)
    assert Span("other", 7, 7, 0) in marks.spans
    assert Span("other", 6, -100, 0) in marks.spans


def test_marks_are_forgotten_once_looking_back_is_quick_again(clock):
    marks = marked(clock)
    looks = 0
    while marks.spans:
        assert looks < 20
        marks.looked_back({}, 0.0001)
        clock(0.001)
        assert marks.must_look_back or marks.spans is None
        looks += 1
    assert looks > 3
    marks.reached([claimed(5)])
    assert not marks.recent


def test_slow_looks_among_quick_ones_leave_no_marks(clock):
    marks = Marks()
    for number in range(300):
        marks.looked_everywhere(0.0001 if number % 3 else 0.01, claimed=1)
        marks.reached([claimed(number)])
        clock(0.1)
        assert not marks.is_collecting


def test_looks_that_bring_many_jobs_may_take_longer(clock):
    marks = Marks()
    for _ in range(100):
        marks.looked_everywhere(0.004, claimed=200)
        clock(0.1)
    assert not marks.is_collecting


def test_there_are_no_more_marks_than_a_look_can_follow(clock):
    marks = slow_marks()
    for priority in range(-100, 101):
        marks.reached([claimed(1, priority=priority)])
    for _ in range(3):
        clock(1.0)
        look_slowly(marks, 2)
    assert len(marks.turns) == module.MOST_MARKS
    marks.looked_back({("one too many", 0): 0}, 0.01)
    assert marks.spans is None


@pytest.mark.parametrize(
    ("marks", "spans"),
    [
        (
            {("a", 100): 7, ("a", -100): 8},
            [("a", 100, 100, 7), ("a", 99, -99, 0), ("a", -100, -100, 8)],
        ),
        (
            {("b", 0): 5, ("a", 1): 6, ("b", 1): 4},
            [
                ("a", 100, 2, 0),
                ("a", 1, 1, 6),
                ("a", 0, -100, 0),
                ("b", 100, 2, 0),
                ("b", 1, 1, 4),
                ("b", 0, 0, 5),
                ("b", -1, -100, 0),
            ],
        ),
    ],
)
def test_spans_leave_out_nothing_but_what_lies_before_the_marks(marks, spans):
    assert list(spans_beyond(marks)) == spans
