"""A worker calls a function once for many jobs, and each of them ends as its own."""

import logging
from types import SimpleNamespace

import pytest

from pgjobs import enqueue, enqueue_many
from pgjobs.exceptions import InvalidArguments
from pgjobs.features.chunks.execution import HidingOfAll, ThreadCalling
from pgjobs.features.chunks.gathering import MembersClient, SharedCall
from pgjobs.features.testing.performing import claimed
from pgjobs.models import Attempt, Job
from pgjobs.queue.recording import Success
from pgjobs.tasks.registry import registry
from pgjobs.worker.slots import kept_logs
from pgjobs.worker.slots.executor import Executor
from tests.plans import own_connection
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)
from tests.tasks import let_go, noop

from .tasks import (
    async_squares,
    by_tenant,
    calls_in,
    enqueue_all,
    holding,
    index,
    marking,
    raising,
    ranges,
    returning,
    squares,
    stepping,
    words,
)

pytestmark = shared_queue


# Who shares a call


def test_ready_jobs_of_a_task_share_calls_in_claim_order(path):
    enqueue_all(index, path, range(25))
    loop = drain()
    assert loop.finished == 25
    called = calls_in(path)
    assert sorted(map(len, called)) == [5, 10, 10]
    assert sorted(pk for call in called for pk in call) == list(range(25))
    assert all(call == sorted(call) for call in called)
    assert set(Job.objects.values_list("status", "attempts")) == {("SUCCESSFUL", 1)}


def test_what_follows_a_member_runs_after_it(path):
    first, *_ = enqueue_all(index, path, range(3))
    enqueue(noop.using(after=[first]))
    drain()
    assert set(Job.objects.values_list("status", "line")) == {("SUCCESSFUL", None)}


def test_no_line_is_looked_at_for_the_rows_of_a_pass_with_members():
    asked = "SELECT current_setting('pgjobs.admits', true)", {}
    with own_connection() as own:
        in_flight = SimpleNamespace(companions={1})
        client = MembersClient(SimpleNamespace(in_flight=in_flight, connection=own))
        assert client.execute(*asked) == [("on",)]
        in_flight.companions.clear()
        assert client.execute(*asked) == [("",)]  # it has ended with the transaction


def test_pass_with_members_is_one_statement_through_a_pooler():
    sent = []
    own = SimpleNamespace(
        pooled=True, together=None, execute=lambda *how: sent.append(how)
    )
    in_flight = SimpleNamespace(companions={1})
    client = MembersClient(SimpleNamespace(in_flight=in_flight, connection=own))
    client.execute("SELECT 1", {})
    assert sent == [("SELECT 1", {})]


def test_jobs_of_different_values_share_no_call(path):
    for tenant in (1, 2):
        enqueue_all(by_tenant, path, [tenant, tenant + 10], tenant=tenant)
    drain()
    assert sorted(calls_in(path)) == [[1, 11], [2, 12]]


def test_jobs_of_different_queues_and_time_limits_share_no_call(path):
    for pk, options in enumerate([{}, {"queue_name": "other"}, {"timeout": 5}]):
        for _ in range(2):
            enqueue(index.using(**options), path=path, pk=pk)
    drain()
    assert sorted(calls_in(path)) == [[0, 0], [1, 1], [2, 2]]


def test_job_of_a_higher_priority_comes_first_in_a_call(path):
    enqueue_all(index, path, [1, 2])
    enqueue(index.using(priority=10), path=path, pk=3)
    drain()
    assert calls_in(path) == [[3, 1, 2]]


def test_arguments_of_a_call_have_a_largest_size(path, monkeypatch):
    monkeypatch.setattr("pgjobs.features.chunks.gathering.MOST_BYTES", 700)
    long = path.replace("/calls", "/." * 100 + "/calls")
    enqueue_all(index, long, range(4))
    drain()
    assert [len(call) for call in calls_in(path)] == [2, 2]


def test_plain_jobs_run_beside_calls(path):
    enqueue_all(index, path, range(5))
    enqueue_many([noop.bind() for _ in range(5)])
    assert drain().finished == 10
    assert calls_in(path) == [[0, 1, 2, 3, 4]]


def test_call_takes_one_slot(path):
    enqueue_all(holding, path, range(10))
    with running_worker(slots=2) as loop:
        wait_for(lambda: calls_in(path))
        assert len(loop.in_flight.jobs) == 10
        enqueue(noop)
        wait_for(lambda: Job.objects.filter(task=noop.name, status="SUCCESSFUL"))
        let_go(path + ".go")
        wait_for(lambda: not Job.objects.running())
    assert loop.executor.submitted == 2


def test_call_takes_the_units_of_one_job(path):
    enqueue_all(holding, path, range(10))
    with running_worker(slots=3, units=2):
        wait_for(lambda: calls_in(path))
        other = enqueue(noop)
        wait_for_status(other, "SUCCESSFUL")
        assert Job.objects.running().count() == 10
        let_go(path + ".go")
        wait_for(lambda: not Job.objects.exclude(status="SUCCESSFUL").exists())


# What becomes of each


@pytest.mark.parametrize("task", [squares, async_squares])
def test_each_job_gets_its_part_of_the_list_as_its_result(task, path):
    jobs = enqueue_all(task, path, range(7))
    drain()
    results = Job.objects.in_bulk([job.pk for job in jobs])
    assert [results[job.pk].return_value for job in jobs] == [
        number * number for number in range(7)
    ]
    assert len(calls_in(path)) == 1


def test_marks_decide_how_each_job_ends(path):
    jobs = enqueue_all(marking, path, range(10))
    drain()
    found = [Job.objects.get(pk=job.pk) for job in jobs]
    assert [job.status for job in found] == [
        *["SUCCESSFUL"] * 4,
        *("FAILED", "CANCELLED", "SCHEDULED", "SUCCESSFUL", "SCHEDULED", "FAILED"),
    ]
    assert [job.reason for job in found[4:7]] == [
        *("four is bad", "five is over", "six is early"),
    ]
    assert found[7].return_value == {"seven": 7}
    assert "cannot be stored" in found[9].reason
    assert (found[6].failures, found[6].attempts) == (1, 1)
    assert (found[6].run_after - found[6].last_attempted_at).seconds >= 3599
    assert Attempt.objects.count() == 5


@pytest.mark.parametrize(
    ("tenant", "status", "reason"),
    [
        (1, "SCHEDULED", "ValueError: no good"),
        (2, "SCHEDULED", "later"),
        (3, "SCHEDULED", "The task snoozed for 3600 s."),
        (4, "CANCELLED", "not needed"),
        (5, "FAILED", "never"),
    ],
)
def test_what_a_function_raises_is_for_all_jobs_without_a_mark(
    tenant, status, reason, path
):
    first, *others = enqueue_all(raising, path, range(3), tenant=tenant)
    drain()
    first.refresh_from_db()
    assert (first.status, first.return_value) == ("SUCCESSFUL", "first")
    for job in others:
        job.refresh_from_db()
        assert (job.status, job.reason) == (status, reason)
        assert job.failures == (1 if tenant in (1, 2, 5) else 0)


def test_list_of_another_length_fails_all_jobs(path):
    enqueue_all(returning, path, range(5))
    drain()
    assert set(Job.objects.values_list("status", "reason")) == {
        (
            "FAILED",
            "The function returned a list of 3 for a chunk of 5: return a list with "
            "the result of each, or None, or say call.succeed(value).",
        )
    }


def test_steps_are_refused(path):
    enqueue_all(stepping, path, range(2))
    drain()
    for job in Job.objects.all():
        assert job.status == "FAILED"
        assert "has no steps" in job.reason


def test_job_whose_arguments_do_not_fit_fails_alone(path):
    jobs = enqueue_all(index, path, range(3))
    Job.objects.filter(pk=jobs[1].pk).update(kwargs={"path": path, "pk": "x"})
    drain()
    assert calls_in(path) == [[0, 2]]
    jobs[1].refresh_from_db()
    assert jobs[1].status == "FAILED"
    assert "pk" in jobs[1].reason


def test_job_that_is_cancelled_meanwhile_says_so_and_interrupts_nothing(path):
    jobs = enqueue_all(holding, path, range(3))
    with running_worker() as loop:
        wait_for(lambda: calls_in(path))
        assert jobs[2].cancel()
        (execution,) = loop.executor.running.values()
        wait_for(lambda: execution.job.call.cancelled)
        let_go(path + ".go")
        wait_for(lambda: not Job.objects.running())
    statuses = [Job.objects.get(pk=job.pk).status for job in jobs]
    assert statuses[:2] == ["SUCCESSFUL", "SUCCESSFUL"]
    assert statuses[2] == "CANCELLED"


def test_log_of_a_call_stands_with_its_first_job(path):
    jobs = enqueue_all(holding, path, range(3))
    let_go(path + ".go")
    drain()
    assert "holds" in Job.objects.get(pk=jobs[0].pk).progress.log


def test_text_that_all_jobs_of_a_call_have_is_masked_once(monkeypatch):
    hide = HidingOfAll((), '{"password": "of the first"}')
    looked_through = []

    def mask(text: str) -> str:
        looked_through.append(text)
        return hide_first(text)

    assert hide("It is of the first.") == "It is ********."
    hide_first = hide.mask
    monkeypatch.setattr(hide, "mask", mask)
    assert [hide("of the first!") for _ in range(3)] == ["********!"] * 3
    assert looked_through == ["of the first!"]
    hide.hide_too([lambda text: text.replace("own", "***")])
    assert hide("of the first, own") == "********, ***"


# Beside other threads


def two_in_a_call(path) -> tuple[ThreadCalling, SharedCall]:
    """Return a call of two members that has not begun."""
    jobs = [claimed(index.bind(path=path, pk=pk).new_job, 1) for pk in range(2)]
    call = SharedCall(jobs, runs_alone=False)
    executor = Executor(1, lambda: None, "default")
    task = registry.find(index.name)
    return ThreadCalling(call.members[0], task, executor, None), call


def test_running_job_of_a_member_is_not_seen_before_it_is_whole(path, monkeypatch):
    calling, _ = two_in_a_call(path)
    member = calling.members[1]
    seen = []

    def look() -> None:
        seen.append((member.hide, "running" in vars(member)))
        member.cancel()

    monkeypatch.setattr(kept_logs.handler, "install", look)
    calling.host.keeps_level = logging.INFO
    assert member.running.hide is calling.hide
    assert seen == [(calling.hide, False)]
    assert member.running.cancel_requested


def test_outcomes_of_a_call_that_has_just_ended_are_known_to_who_abandons_it(path):
    calling, call = two_in_a_call(path)
    first, second = call.members
    assert call.marked(second) is None
    ended = list(calling.each(Success(first.id, first.lease_token, "1")))
    assert [call.marked(job) for job in (first, second)] == ended


# Their arguments


def test_members_have_the_class_that_the_hint_names(path):
    (word,) = [enqueue(words, path=path, word="hello")]
    span = enqueue(ranges, low=1, high=5)
    drain()
    word.refresh_from_db()
    span.refresh_from_db()
    assert (word.return_value, span.return_value) == ("hello", 4)


def test_arguments_are_checked_when_a_job_is_enqueued(path):
    with pytest.raises(InvalidArguments, match="pk: is missing"):
        enqueue(index, path=path)
    with pytest.raises(InvalidArguments, match=r"pk: .*int"):
        enqueue(index, path=path, pk="1")
    with pytest.raises(InvalidArguments, match="takes 0 positional"):
        enqueue(index, path, 1)
    with pytest.raises(InvalidArguments, match="low is above high"):
        enqueue(ranges, low=5, high=1)
    assert not Job.objects.exists()
