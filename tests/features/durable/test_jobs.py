"""Waits for other jobs: how they end, and what a new life makes of them."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.utils import timezone

from pgjobs import enqueue, group
from pgjobs.features.durable import queue, running_job
from pgjobs.features.durable.ways import refuse_circle
from pgjobs.features.operating import pruning
from pgjobs.models import Batch, Job, Predecessor
from pgjobs.queue import recording, upkeep
from pgjobs.queue.claiming import ClaimedJob
from pgjobs.queue.recording import Unsuccessful
from tests.actors import Hand, Session, admit, execute
from tests.features.durable import bodies
from tests.features.durable.bodies import done, goes_on
from tests.features.durable.test_answers import let_time_pass
from tests.processes import drain, shared_queue

pytestmark = shared_queue
HOUR = timedelta(hours=1)
SHORT = {"options": "-c lock_timeout=9s"}
AGES = {"SUCCESSFUL": 8 * 86_400.0}


def later_child() -> Job:
    return bodies.child.using(run_after=HOUR).enqueue(1)


def waits_for(*jobs):
    return lambda job: job.wait_for_jobs("others", jobs)


def test_wait_for_no_jobs_ends_at_once():
    job = done(waits_for())
    assert (job.status, job.return_value) == ("SUCCESSFUL", [])


def test_job_may_be_named_twice():
    child = later_child()
    job = done(waits_for(child, child.pk))
    assert job.status == "WAITING"
    child.run_now()
    assert [end[0] for end in goes_on(job).return_value] == [child.pk] * 2


@pytest.mark.parametrize("id", [2**63, -(2**63) - 1, 10**30])
def test_id_that_no_job_can_have_is_refused(id):
    job = done(waits_for(id))
    assert (job.status, job.attempts) == ("FAILED", 1)
    assert "jobs must be up to 1000 jobs or their ids" in job.reason


@pytest.mark.parametrize("act", ["retry", "retry_keeping"])
def test_new_life_does_not_stand_behind_the_jobs_of_the_old_wait(act):
    child = later_child()
    job = done(waits_for(child))
    job.cancel()
    bodies.body = lambda job: "no wait"
    assert job.retry(keep_steps=act == "retry_keeping")
    assert job.status == "READY"
    assert goes_on(job).return_value == "no wait"


def test_job_that_is_named_twice_is_waited_for_once_and_told_twice():
    child = later_child()
    job = done(waits_for(child, child))
    assert (job.status, job.waiting_for) == ("WAITING", "jobs")
    child.run_now()
    assert [end[1] for end in goes_on(job).return_value] == ["SUCCESSFUL"] * 2


def test_wait_for_no_job_ends_at_once():
    job = done(waits_for())
    assert (job.status, job.attempts, job.return_value) == ("SUCCESSFUL", 1, [])


def test_job_waits_for_its_predecessor_that_was_retried():
    first = bodies.child.enqueue(1)
    bodies.body = lambda job: (job.wait_for("question", bool), waits_for(first)(job))[1]
    job = bodies.plain.using(after=first).enqueue()
    goes_on(job)
    Job.objects.filter(pk=first.pk).retry()
    Job.objects.filter(pk=first.pk).update(
        status="SCHEDULED", run_after=timezone.now() + HOUR
    )
    job.answer("question", True)
    assert (goes_on(job).status, job.waiting_for) == ("WAITING", "jobs")
    Job.objects.get(pk=first.pk).run_now()
    assert [end[1] for end in goes_on(job).return_value] == ["SUCCESSFUL"]


@pytest.mark.parametrize("act", ["let time pass", "mark"])
def test_wait_of_a_chained_job_ends_without_the_others(act):
    bodies.body = lambda job: [job.wait_for_jobs("others", [child])]
    child = later_child()
    job = bodies.plain.using(after=bodies.child.enqueue(1)).enqueue()
    assert (goes_on(job).status, job.waiting_for) == ("WAITING", "jobs")
    job.mark_step("others", None) if act == "mark" else let_time_pass(job)
    assert (goes_on(job).status, job.return_value) == ("SUCCESSFUL", [None])


def test_links_of_a_wait_go_with_it_and_those_of_a_chain_stay():
    first = bodies.child.enqueue(1)
    bodies.body = waits_for(bodies.child.enqueue(2))
    chained = bodies.plain.using(after=first, after_failure="run").enqueue()
    goes_on(chained)
    assert chained.status == "SUCCESSFUL"
    links = Predecessor.objects.filter(job_id=chained.pk)
    assert [link.predecessor_id for link in links] == [first.pk]


def test_links_of_a_wait_go_and_that_to_a_batch_stays():
    batch = Batch.objects.create()
    bodies.child.using(batch=batch).enqueue(1)
    bodies.body = waits_for(bodies.child.enqueue(2))
    chained = bodies.plain.using(after=batch, after_failure="run").enqueue()
    goes_on(chained)
    assert chained.status == "SUCCESSFUL"
    links = Predecessor.objects.filter(job_id=chained.pk)
    assert [link.batch_id for link in links] == [batch.pk]


def test_wait_of_a_new_life_hears_of_a_job_that_runs_again():
    child = later_child()
    job = done(waits_for(child))
    child.cancel()
    bodies.body = lambda job: job.wait_for("question", bool)
    job.cancel()
    job.retry()
    goes_on(job)
    child.retry()  # due in an hour
    bodies.body = waits_for(child)
    job.answer("question", True)
    assert (goes_on(job).status, job.waiting_for) == ("WAITING", "jobs")
    child.run_now()
    assert goes_on(job).return_value[0][1] == "SUCCESSFUL"


def test_jobs_of_a_task_with_steps_are_kept_until_it_has_ended():
    def body(job):
        child = job.step("child", bodies.child.enqueue, 1)
        if job.wait_for("question", bool):
            return job.wait_for_jobs("children", [child])[0].status

    job = done(body)
    prune()
    assert Job.objects.count() == 2
    assert pruning.count_kept(execute, AGES) == {
        "the job that enqueued it has steps, and has not ended": 1
    }
    job.answer("question", True)
    assert goes_on(job).return_value == "SUCCESSFUL"
    prune()
    assert not Job.objects.exists()


def test_job_that_was_enqueued_between_steps_is_pruned():
    job = done(lambda job: bodies.child.enqueue(1) and job.sleep("nap", HOUR))
    prune()
    assert list(Job.objects.all()) == [job]


def prune() -> None:
    execute("UPDATE pgjobs_job SET finished_at = finished_at - interval '9 days'")
    upkeep.prune(execute, AGES)


def test_step_marked_by_hand_leaves_the_predecessors_of_a_new_life():
    first = later_child()
    bodies.body = lambda job: "done"
    second = bodies.plain.using(after=first, after_failure="run").enqueue()
    first.run_now()
    goes_on(second)
    assert first.retry() and second.retry()
    admit()
    assert second.mark_step("one", 1)
    second.refresh_from_db()
    assert (second.status, second.waiting_for) == ("WAITING", "predecessor")
    assert Predecessor.objects.get(job_id=second.pk).is_open


# Circles


def after_this_one(job):
    first = bodies.child.using(after=Job.objects.get(pk=job.id)).enqueue(1)
    return bodies.child.using(after=first).enqueue(1)


def behind_its_lock(job):
    first = bodies.child.using(lock="door").enqueue(1)
    return bodies.child.using(after=first).enqueue(1)


def after_its_batch(job):
    batch = Batch.objects.create()
    Job.objects.filter(pk=job.id).update(batch=batch)
    return bodies.child.using(after=batch).enqueue(1)


def after_a_batch_behind_it(job):
    batch = Batch.objects.create()
    bodies.child.using(batch=batch, after=Job.objects.get(pk=job.id)).enqueue(1)
    return bodies.child.using(after=batch).enqueue(1)


CIRCLES = [after_this_one, behind_its_lock, after_its_batch, after_a_batch_behind_it]


@pytest.mark.parametrize("linked", [True, False], ids=["linked", "not yet linked"])
@pytest.mark.parametrize("circle", CIRCLES, ids=lambda circle: circle.__name__)
def test_wait_for_a_job_that_waits_for_this_one_over_others_is_refused(circle, linked):
    def body(job):
        last = circle(job)
        if linked:
            admit()
        job.wait_for_jobs("circle", [later_child(), last])

    job = done(body, bodies.ordered)
    assert job.status != "WAITING"
    assert "for this job, or for its lock" in job.reason


def test_wait_for_a_job_whose_task_waits_for_this_one_is_refused():
    first = done(lambda job: job.wait_for("question", bool))
    second = done(waits_for(first))
    assert second.waiting_for == "jobs"
    bodies.body = lambda job: (
        job.wait_for("question", bool) and job.wait_for_jobs("circle", [second])
    )
    first.answer("question", True)
    assert "for this job" in goes_on(first).reason


@pytest.mark.parametrize("mode", ["mutex", "ordered"])
def test_wait_for_jobs_that_only_look_like_a_circle_is_allowed(mode):
    def body(job):
        free = bodies.child.using(lock="other").enqueue(1)
        ended = bodies.child.enqueue(1)
        ended.succeed()
        after = bodies.child.using(after=[free, ended]).enqueue(1)
        Job.objects.filter(pk=after.pk).update(batch=Batch.objects.create())
        return job.wait_for_jobs("line", [after])[0].status

    task = bodies.locked if mode == "mutex" else bodies.ordered
    assert done(body, task).return_value == "SUCCESSFUL"


def test_wait_of_a_job_for_what_follows_its_own_batch_is_refused_with_the_cure():
    bodies.body = lambda job: job.wait_for_jobs(
        "circle", [Job.objects.get(task="durable.child")]
    )
    chain = group([bodies.plain.bind(), bodies.plain.bind()], then=bodies.child.bind(1))
    enqueue(chain)
    drain()
    members = Job.objects.filter(task="durable.plain")
    assert {job.status for job in members} == {"FAILED"}
    assert "wait for it in a job outside of the batch" in members[0].reason
    assert Job.objects.get(task="durable.child").status == "SUCCESSFUL"


def test_search_for_circles_reads_no_whole_table():
    """It is a function, whose settings keep the planner from it."""
    ((settings,),) = execute(
        "SELECT proconfig FROM pg_proc WHERE proname = 'pgjobs_circle_with'"
    )
    assert {"enable_seqscan=off", "enable_hashjoin=off"} <= set(settings)


# Circles whose jobs have asked at once


@pytest.fixture
def at_once(monkeypatch):
    """Let two jobs suspend once both have asked, so that none sees the other wait."""
    asked = threading.Barrier(2)

    def refuse(job_id: int, way) -> None:
        refuse_circle(job_id, way)
        if Job.objects.get(pk=job_id).attempts == 1:
            asked.wait(30)

    monkeypatch.setattr(running_job, "refuse_circle", refuse)


def waits_for_the_next(job):
    """Wait for the next of all jobs of the task; the last waits for the first."""
    ids = list(Job.objects.filter(task="durable.plain").values_list("pk", flat=True))
    ids.sort()
    other = ids[(ids.index(job.id) + 1) % len(ids)]
    return [end.status for end in job.wait_for_jobs("circle", [other]) or ()]


def test_of_two_jobs_that_wait_for_each_other_at_once_the_newer_is_refused(at_once):
    bodies.body = waits_for_the_next
    first, second = bodies.plain.enqueue(), bodies.plain.enqueue()
    drain(slots=2)
    first.refresh_from_db(), second.refresh_from_db()
    assert (first.status, second.status) == ("SUCCESSFUL", "FAILED")
    assert first.return_value == ["FAILED"]
    assert f"Jobs {first.pk} wait for this job" in second.reason


def suspension(job: ClaimedJob, other: int) -> Unsuccessful:
    """Return the outcome of a job that waits for another one."""
    ways = [{"kind": "jobs", "label": None, "jobs": [other]}]
    stores = {"name": "circle", "seconds": 3600, "waiting_for": "jobs", "ways": ways}
    return Unsuccessful(
        job.id, job.lease_token, "SUSPEND", "", statement="suspend", stores=stores
    )


@contextmanager
def suspended_at_once(others: list[int]) -> Iterator[tuple[list[Session], list[int]]]:
    """Begin to suspend jobs, each in a session of its own; yield these and the ids.

    `others`: the place of the one for which each waits.
    """
    ids = [bodies.plain.enqueue().pk for _ in others]
    # Or each would wait for the one that marks it.
    execute("""UPDATE pgjobs_job SET keys = '{"has_successors": true}'""")
    hand = Hand()
    sessions = []
    for job in sorted(hand.claim(len(ids)), key=lambda job: job.id):
        outcome = suspension(job, ids[others[ids.index(job.id)]])
        sessions.append(Session(**SHORT))
        sessions[-1].begin()
        recording.record(sessions[-1].execute, hand.id, "hand", [outcome])
    try:
        yield sessions, ids
    finally:
        for session in sessions:
            session.connection.close()


def look() -> None:
    queue.wake(execute)


CASES = [
    *itertools.product([[1, 0]], itertools.permutations(range(2)), range(4)),
    *itertools.product([[1, 2, 0]], itertools.permutations(range(3)), [0, 7]),
]


@pytest.mark.parametrize(("others", "order", "looks"), CASES)
def test_one_job_of_a_circle_is_woken_in_any_order_of_commits_and_looks(
    others, order, looks
):
    with suspended_at_once(others) as (sessions, ids):
        for place, each in enumerate(order):
            sessions[each].commit()
            if looks & 1 << place:  # a worker looks before the next one commits
                look()
    look()
    execute("UPDATE pgjobs_waitnote SET due_at = now()")
    look()  # nobody else is woken later
    assert [Job.objects.get(pk=id).status for id in ids] == [
        *["WAITING"] * (len(ids) - 1),
        "READY",
    ]


def test_job_that_waits_for_one_of_a_circle_and_is_not_in_it_waits_on():
    with suspended_at_once([1, 0, 1]) as (sessions, ids):
        for session in sessions:
            session.commit()
    look()
    statuses = [Job.objects.get(pk=id).status for id in ids]
    assert statuses == ["WAITING", "READY", "WAITING"]


def test_two_circles_that_close_at_once_lose_one_job_each():
    with suspended_at_once([1, 0, 3, 2]) as (sessions, ids):
        for session in sessions:
            session.commit()
    look()
    statuses = [Job.objects.get(pk=id).status for id in ids]
    assert statuses == ["WAITING", "READY"] * 2


def test_jobs_that_are_suspended_by_one_statement_may_wait_for_each_other():
    jobs = [bodies.plain.enqueue() for _ in range(3)]
    hand = Hand()
    claimed = sorted(hand.claim(3), key=lambda job: job.id)
    others = [claimed[1].id, claimed[2].id, claimed[0].id]
    outcomes = [
        suspension(job, other) for job, other in zip(claimed, others, strict=True)
    ]
    recorded = recording.record(execute, hand.id, "hand", outcomes)
    assert [each.status for each in recorded] == ["WAITING"] * 3
    look()
    statuses = [Job.objects.get(pk=job.pk).status for job in jobs]
    assert statuses == ["WAITING", "WAITING", "READY"]


def test_long_chain_of_jobs_that_wait_for_jobs_is_no_circle():
    last = later_child()
    bodies.body = lambda job: job.wait_for_jobs("next", [job.id - 1])
    jobs = [bodies.plain.enqueue() for _ in range(5)]
    drain()
    assert {job.status for job in Job.objects.exclude(pk=last.pk)} == {"WAITING"}
    last.run_now()
    drain()
    assert {Job.objects.get(pk=job.pk).status for job in jobs} == {"SUCCESSFUL"}
