"""Jobs that depend on others wait for them, whichever worker works, fails or dies."""

import importlib
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from threading import Barrier

import pytest
from django.core.management import call_command
from django.db import connections, transaction
from django.utils import timezone

from pgjobs import enqueue, enqueue_many, task
from pgjobs.features.dependencies import chore as depending
from pgjobs.features.dependencies.checks import check_dependencies
from pgjobs.features.dependencies.chore import Deciding
from pgjobs.features.dependencies.queue import Undecided, look_up
from pgjobs.models import Job, Note, Predecessor, Prerequisite
from pgjobs.queue import admitting, upkeep
from pgjobs.reports.obstacles import described, obstacles
from pgjobs.reports.status import overview
from pgjobs.sql import statement
from pgjobs.tasks import registry
from tests import tasks
from tests.actors import Hand, admit, execute, hours, overlapping, session
from tests.plans import own_connection, scans_of_whole_indexes
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)
from tests.support import dependent_tasks as dependent
from tests.support.declared import store_definitions
from tests.worker.test_execution import (
    check_that_ends_are_announced,
    heard,  # noqa: F401
)

pytestmark = shared_queue


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "notes")


def statuses() -> dict[str, list[str]]:
    """Return the statuses of the jobs by their tasks' names."""
    found: dict[str, list[str]] = {}
    for name, status in Job.objects.order_by("pk").values_list("task", "status"):
        found.setdefault(name.removeprefix("tests."), []).append(status)
    return found


def admit_all() -> None:
    """Let a worker look at the jobs that wait, and leave."""
    hand = Hand()
    admit()
    hand.vanish()


def status_of(job: Job) -> str:
    """Return the status once a worker has looked."""
    admit_all()
    job.refresh_from_db()
    return job.status


def decide(limit: int) -> int:
    """Let a worker look for dependencies; return of how many jobs it has decided."""
    admit_all()
    with session() as worker:
        return len(Deciding(worker.execute, limit).run())


def only(task_name: str) -> Job:
    return Job.objects.get(task=f"tests.{task_name}")


def insert(task_name: str, kwargs: str) -> Job:
    """Insert a job as any client can, with a plain INSERT."""
    ((id,),) = execute(
        "INSERT INTO pgjobs_job (task, kwargs) VALUES (%(task)s, %(kwargs)s::jsonb)"
        " RETURNING id",
        {"task": f"tests.{task_name}", "kwargs": kwargs},
    )
    return Job.objects.get(pk=id)


def age_success(of: Job, **ago: float) -> None:
    """Let the job have succeeded so long ago."""
    time = Job.objects.get(pk=of.pk).finished_at - timedelta(**ago)
    Job.objects.filter(pk=of.pk).update(finished_at=time)
    for row in Prerequisite.objects.filter(job_id=of.pk):
        row.needed_until -= row.finished_at - time
        row.finished_at = time
        row.save()


@task(name="tests.transfer", sensitive=("iban",))
def transfer(iban: str) -> None: ...


def test_reason_of_a_failed_decision_quotes_nothing_sensitive():
    job = Undecided(1, "tests.transfer", "[]", '{"iban": "DE12345678"}', 0)
    decided = depending.failure(job, "ValueError: DE12345678 has no account")
    assert decided.reason == "ValueError: ******** has no account."


# Chains


def test_enqueueing_the_last_job_runs_its_dependencies_first(path):
    job = dependent.send_client.enqueue(path, 42)
    assert (job.status, job.waiting_for) == ("WAITING", "dependency")
    out = StringIO()
    call_command("runjobs", "--drain", "--max-time=20", stdout=out)
    assert "Completed 3 jobs" in out.getvalue()
    assert tasks.lines(path) == ["refresh 42", "generate 42", "send 42"]
    again = dependent.send_client.enqueue(path, 42)
    assert status_of(again) == "READY"
    assert drain().finished == 1
    dependent.send_client.enqueue(path, 43)
    assert drain().finished == 3


def test_each_dependency_has_one_more_of_priority_up_to_the_highest(path):
    dependent.send_client.using(priority=99).enqueue(path, 1)
    drain()
    priorities = dict(Job.objects.values_list("task", "priority"))
    assert priorities == {
        "tests.send_client": 99,
        "tests.generate_client": 100,
        "tests.refresh_client": 100,
    }


def test_dependency_that_several_wait_for_comes_before_the_most_urgent(path):
    for priority in (-90, 50, 10):
        dependent.use.using(priority=priority).enqueue(path)
    assert decide(10) == 3
    assert only("prepare").priority == 51


def test_job_waits_for_a_slow_dependency_whatever_workers_and_priorities(path):
    with running_worker(slots=4), running_worker(slots=4):
        held = dependent.prepare.using(priority=-50).enqueue(path)
        wait_for(lambda: tasks.lines(path), "it runs")
        waiting = [
            dependent.use.using(priority=each).enqueue(path, each) for each in (90, -90)
        ]
        wait_for(lambda: Predecessor.objects.count() == 2, "both wait for it")
        for job in waiting:
            job.refresh_from_db()
            assert (job.status, job.blocked_by_id) == ("WAITING", held.pk)
        tasks.let_go(path)
        wait_for_all("SUCCESSFUL")
    assert tasks.lines(path)[1:] == ["prepared", "used", "used"]
    assert len(statuses()["prepare"]) == 1


def test_many_dependents_share_one_dependency(path):
    jobs = enqueue_many([dependent.use.bind(path, number) for number in range(250)])
    assert {job.status for job in jobs} == {"WAITING"}
    tasks.let_go(path)
    with running_worker(slots=4), running_worker(slots=4):
        wait_for_all("SUCCESSFUL")
    assert len(statuses()["prepare"]) == 1
    assert Note.objects.count() == 0


def test_dependents_that_commit_at_the_same_time_share_one_dependency(path):
    barrier = Barrier(4, timeout=60)

    def enqueue(number: int):
        try:
            with transaction.atomic():
                dependent.use.enqueue(path, number)
                barrier.wait(60)
        finally:
            connections.close_all()

    tasks.let_go(path)
    with running_worker(), running_worker(), ThreadPoolExecutor(4) as pool:
        list(pool.map(enqueue, range(4)))
        wait_for_all("SUCCESSFUL")
    assert statuses() == {"use": ["SUCCESSFUL"] * 4, "prepare": ["SUCCESSFUL"]}


def test_success_counts_only_within_the_window(path):
    dependent.generate_client.enqueue(path, 1)
    assert drain().finished == 2
    age_success(only("generate_client"), hours=2)
    job = dependent.send_client.enqueue(path, 1)
    assert job.status == "WAITING"
    assert drain().finished == 2  # of what generate needs there is a recent success
    assert tasks.lines(path) == ["refresh 1", "generate 1", "generate 1", "send 1"]


def test_only_the_named_arguments_count(path):
    dependent.generate_client.enqueue(path, 1, month="2024-01")
    drain()
    assert status_of(dependent.send_client.enqueue(path, 1)) == "READY"
    assert status_of(dependent.send_client.enqueue(path, 2)) == "WAITING"


def test_success_by_hand_counts(path):
    job = dependent.generate_client.enqueue(path, 1)
    waiting = dependent.send_client.enqueue(path, 1)
    job.succeed()
    drain()
    assert wait_for_status(waiting, "SUCCESSFUL")
    assert tasks.lines(path) == ["send 1"]


def test_scheduled_job_is_looked_at_when_it_is_due(path):
    job = dependent.send_client.using(run_after=hours(1)).enqueue(path, 1)
    assert job.status == "SCHEDULED"
    assert drain().finished == 0
    assert len(statuses()) == 1
    job.run_now()
    job.refresh_from_db()
    assert job.status == "WAITING"
    assert drain().finished == 3


def test_rolled_back_job_leaves_nothing(path):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        dependent.send_client.enqueue(path, 1)
        raise ZeroDivisionError
    drain()
    assert Job.objects.count() == Note.objects.count() == 0


@pytest.mark.direct
def test_satisfied_dependency_costs_one_look_at_an_index(path):
    dependent.generate_client.enqueue(path, 1)
    drain()
    with transaction.atomic():
        before = scans()
        job = dependent.send_client.enqueue(path, 1)
        Hand()
        assert admitting.admit(execute).admitted == 1
        after = scans()
    assert after["pgjobs_prerequisite"] - before["pgjobs_prerequisite"] == 1
    assert rows_made("pgjobs_predecessor") == rows_made("pgjobs_note") == 0
    drain()
    wait_for_status(job, "SUCCESSFUL")


def test_dependency_costs_one_look_however_often_it_has_succeeded(path):
    dependent.generate_client.enqueue(path, 1)
    drain()
    row = Prerequisite.objects.get(key__startswith="tests.generate_client")
    latest = row.finished_at
    for number in range(1, 500):
        row.pk, row.job_id = None, -number
        row.finished_at = latest - hours(number)
        row.save(force_insert=True)
    with transaction.atomic():
        before = rows_read()
        dependent.send_client.enqueue(path, 1)
        Hand()
        assert admitting.admit(execute).admitted == 1
        assert rows_read() - before <= 1
        look_up(execute, [(row.key, 60.0)])
        assert rows_read() - before <= 2


def rows_made(table: str) -> int:
    ((number,),) = execute(
        "SELECT count(*) FROM pg_stat_xact_user_tables"
        " WHERE relname = %(table)s AND n_tup_ins > 0",
        {"table": table},
    )
    return number


def rows_read() -> int:
    ((number,),) = execute(
        "SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read"
        " FROM pg_stat_xact_user_tables WHERE relname = 'pgjobs_prerequisite'"
    )
    return number


def scans() -> dict[str, int]:
    """Return how often this transaction has looked at each table."""
    return dict(
        execute(
            "SELECT relname, coalesce(idx_scan, 0) + seq_scan + n_tup_ins"
            " FROM pg_stat_xact_user_tables WHERE relname LIKE 'pgjobs%%'"
        )
    )


# Failing


def test_job_fails_when_its_dependency_has_failed_for_good(path):
    last = dependent.need_that.enqueue(path)
    drain()
    broken = only("break_down")
    middle = only("need_what_breaks")
    last.refresh_from_db()
    assert middle.status == last.status == "FAILED"
    assert middle.reason == f"Failed: dependency job {broken.pk} failed."
    assert last.reason == f"Failed: dependency job {middle.pk} failed."
    assert tasks.lines(path) == ["broke"]
    assert drain().finished == 0


def test_failed_job_that_is_retried_tries_its_dependency_again(path):
    job = dependent.need_what_breaks.enqueue(path)
    drain()
    assert job.retry() is True
    assert (job.status, job.waiting_for) == ("WAITING", "dependency")
    drain()
    assert statuses()["break_down"] == ["FAILED", "FAILED"]
    job.refresh_from_db()
    second = Job.objects.filter(task="tests.break_down").last()
    assert job.reason == f"Failed: dependency job {second.pk} failed."
    assert len(tasks.lines(path)) == 2


def test_job_waits_for_the_retries_of_its_dependency(path):
    dependent.break_down.using(max_attempts=2).enqueue(path)
    job = dependent.need_what_breaks.enqueue(path)
    with running_worker():
        wait_for(lambda: statuses()["break_down"] == ["SCHEDULED"], "it backs off")
        job.refresh_from_db()
        assert job.status == "WAITING"
        only("break_down").run_now()
        wait_for_status(job, "FAILED")


def test_cancelled_dependency_does_not_leave_its_job_waiting_for_ever(path):
    with running_worker():
        held = dependent.prepare.enqueue(path)
        job = dependent.use.enqueue(path)
        wait_for(lambda: Predecessor.objects.exists(), "it waits")
        held.cancel()
        reason = wait_for_status(job, "FAILED").reason
        tasks.let_go(path)
    assert reason == f"Failed: dependency job {held.pk} was cancelled."


def test_deleted_dependency_does_not_leave_its_job_waiting_for_ever(path):
    scheduled = dependent.prepare.using(run_after=hours(1)).enqueue(path)
    job = dependent.use.enqueue(path)
    with running_worker():
        wait_for(lambda: Predecessor.objects.exists(), "it waits")
        assert Job.objects.filter(pk=scheduled.pk).discard().changed == 1
        reason = wait_for_status(job, "FAILED").reason
    assert reason == f"Failed: dependency job {scheduled.pk} is gone."


def test_job_of_a_killed_worker_still_meets_its_dependents(start_worker, path):
    quick = {
        "HEARTBEAT_INTERVAL": 0.3,
        "LEASE_DURATION": 3,
        "TASK_MODULES": ["tests.support.dependent_tasks"],
    }
    victim = start_worker(settings=quick)
    job = dependent.use.enqueue(path)
    wait_for(lambda: tasks.lines(path), "the dependency runs")
    start_worker(settings=quick)
    victim.kill()
    wait_for(lambda: len(tasks.lines(path)) == 2, "it runs again")
    job.refresh_from_db()
    assert job.status == "WAITING"
    tasks.let_go(path)
    wait_for_status(job, "SUCCESSFUL")
    assert tasks.lines(path)[2:] == ["prepared", "used"]


def test_job_whose_dependency_cannot_be_stored_fails_and_others_go_on(
    path, monkeypatch
):
    bind = depending.bind

    def bind_wrongly(need, priority):
        new_job = bind(need, priority)
        if need.arguments["number"] != 2:
            return new_job
        return new_job._replace(kwargs="[]")

    monkeypatch.setattr(depending, "bind", bind_wrongly)
    jobs = enqueue_many([dependent.need_only_one.bind(each) for each in (1, 2, 3)])
    drain()
    assert "CheckViolation" in wait_for_status(jobs[1], "FAILED").reason
    assert wait_for_status(jobs[0], "SUCCESSFUL")
    assert wait_for_status(jobs[2], "SUCCESSFUL")


def test_job_of_an_unknown_task_waits_and_fails_after_the_grace(path, settings):
    job = dependent.use.enqueue(path)
    del registry.tasks[dependent.use.origin]
    registry.forget_names()
    drain()
    assert wait_for_status(job, "WAITING").blocked_by_id is None
    assert job.reason.startswith("No task registered as 'tests.use'. Put back since ")
    settings.PGJOBS = {"UNKNOWN_TASK_GRACE": 0}
    drain()
    reason = wait_for_status(job, "FAILED").reason
    assert reason == "No task registered as 'tests.use'."
    assert Note.objects.count() == 0


@pytest.mark.parametrize("life", [1, 2])
def test_job_of_an_unknown_task_that_was_enqueued_long_ago_waits_for_the_grace(
    path, life
):
    job = dependent.use.enqueue(path)
    if life == 2:
        job.cancel()
        assert job.retry()
    Job.objects.update(enqueued_at=timezone.now() - timedelta(days=90))
    del registry.tasks[dependent.use.origin]
    registry.forget_names()
    drain()
    job.refresh_from_db()
    assert job.status == "WAITING"
    since = job.reason
    drain()
    job.refresh_from_db()
    assert (job.status, job.reason) == ("WAITING", since)
    long_ago = timezone.now() - timedelta(minutes=11)
    Job.objects.update(reason=f"{since[:-24]}{long_ago:%Y-%m-%d %H:%M:%S} UTC.")
    drain()
    assert wait_for_status(job, "FAILED").reason == since[: since.index(" Put back")]


def test_jobs_of_a_task_that_does_not_depend_any_more_are_admitted(path, monkeypatch):
    job = dependent.use.enqueue(path)
    without = replace(dependent.use.options, dependencies=())
    monkeypatch.setattr(dependent.use, "options", without)
    registry.forget_names()
    drain()
    wait_for_status(job, "SUCCESSFUL")
    assert statuses() == {"use": ["SUCCESSFUL"]}


def test_arguments_that_replace_others_have_needs_of_their_own(path):
    once = dependent.send_client.using(unique_key="one", on_conflict="replace")
    job = once.enqueue(path, 1)
    assert decide(1) == 1
    assert once.enqueue(path, 2) == job
    drain()
    wait_for_status(job, "SUCCESSFUL")
    assert tasks.lines(path)[-1] == "send 2"
    assert "generate 2" in tasks.lines(path)


def test_job_whose_arguments_were_replaced_provides_nothing_under_the_old_ones(path):
    once = dependent.refresh_client.using(unique_key="one", on_conflict="replace")
    job = once.enqueue(path, 1)
    waiting = dependent.generate_client.enqueue(path, 1)
    assert once.enqueue(path, 2) == job
    drain()
    wait_for_status(waiting, "SUCCESSFUL")
    assert tasks.lines(path) == ["refresh 2", "refresh 1", "generate 1"]


# By SQL


def test_job_that_sql_inserts_is_held_back(path):
    job = insert("send_client", f'{{"path": "{path}", "client": 7}}')
    assert drain().finished == 3
    assert tasks.lines(path) == ["refresh 7", "generate 7", "send 7"]
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"
    insert("send_client", f'{{"path": "{path}", "client": 7}}')
    assert drain().finished == 1


def test_job_that_sql_inserts_provides_for_others(path):
    insert("generate_client", f'{{"path": "{path}", "client": 7}}')
    drain()
    assert status_of(dependent.send_client.enqueue(path, 7)) == "READY"


def test_job_that_provides_one_key_twice_provides_it_for_the_longer_time(path):
    """SQL may write whatever the shape allows; Python never writes a key twice."""
    twice = '{"key": "k", "for": 60}, {"key": "k", "for": 3600}, {"key": "k", "for": 1}'
    execute(
        "INSERT INTO pgjobs_job (task, dependencies) VALUES ('tests.noop',"
        f""" '{{"needs": [], "provides": [{twice}]}}')"""
    )
    hand = Hand()
    (job,) = hand.claim()
    hand.succeed(job)
    provided = Prerequisite.objects.get(key="k")
    assert provided.needed_until - provided.finished_at == hours(1)


def test_job_that_sql_inserts_with_wrong_arguments_fails(path):
    job = insert("send_client", f'{{"path": "{path}", "client": "x"}}')
    drain()
    assert "client" in wait_for_status(job, "FAILED").reason


# Tasks that were written for another queue


@pytest.fixture
def foreign():
    sys.modules.pop("tests.support.foreign_tasks", None)
    return importlib.import_module("tests.support.foreign_tasks")


def test_tasks_of_another_queue_pass_the_check_with_one_warning(foreign):
    assert foreign.send_report(42, "a@example.com") is None
    found = [each for each in check_dependencies() if each.obj is foreign.send_report]
    assert [each.id for each in found] == ["pgjobs.W043"]
    assert "no value for 'month'" in found[0].msg


def test_job_whose_dependency_cannot_be_filled_in_fails_and_says_why(foreign):
    job = foreign.send_report.enqueue(42, "a@example.com")
    drain()
    assert wait_for_status(job, "FAILED").reason == (
        "Cannot enqueue tests.generate_report, on which the job depends: no value for "
        "'month'."
    )


def test_task_of_another_queue_runs_if_other_code_has_enqueued_its_dependency(foreign):
    report = foreign.generate_report.enqueue(42, "2024-01")
    job = foreign.send_report.enqueue(42, "a@example.com")
    drain()
    assert wait_for_status(report, "SUCCESSFUL")
    assert wait_for_status(job, "SUCCESSFUL")
    assert status_of(foreign.send_report.enqueue(42, "b@example.com")) == "READY"


def test_tasks_of_another_queue_are_enqueued_by_sql_one_job_for_each_value(foreign):
    store_definitions("default")
    execute(
        """
        CALL pgjobs_insert_job('tests', 'export_data', 10,
             '{"client_id": 42, "format": "ALL"}'::json)
        """
    )
    drain()
    jobs = Job.objects.filter(task=foreign.export_data.name, priority=10)
    assert {(job.kwargs["format"], job.status) for job in jobs} == {
        ("csv", "SUCCESSFUL"),
        ("json", "SUCCESSFUL"),
        ("parquet", "SUCCESSFUL"),
    }


# Beside other things that hold jobs back


def test_job_does_not_take_its_lock_while_it_waits_for_a_dependency(path):
    waiting = dependent.use.using(lock="one", lock_mode="mutex").enqueue(path)
    other = tasks.noop.using(lock="one", lock_mode="mutex").enqueue()
    with running_worker():
        wait_for_status(other, "SUCCESSFUL")
        tasks.let_go(path)
        wait_for_status(waiting, "SUCCESSFUL")


def test_job_waits_for_its_lock_after_its_dependency(path):
    note = str(path) + "-lock"
    holder = tasks.hold.using(lock="one").enqueue(note)
    tasks.let_go(path)
    with running_worker():
        wait_for_status(holder, "RUNNING")
        job = dependent.use.using(lock="one").enqueue(path)
        wait_for(lambda: statuses().get("prepare") == ["SUCCESSFUL"])
        wait_for(lambda: Job.objects.get(pk=job.pk).waiting_for == "lock")
        tasks.let_go(note)
        wait_for_status(job, "SUCCESSFUL")


def test_dependency_is_enqueued_with_the_options_that_it_was_given(path):
    dependent.use_on_the_side.enqueue(path)
    assert decide(1) == 1
    assert only("prepare").queue_name == "side"


def test_dependency_with_a_unique_key_is_the_job_that_holds_it():
    first = dependent.only_one.using(run_after=hours(1)).enqueue(1)
    Prerequisite.objects.all().delete()  # as if it came before its dependants
    job = dependent.need_only_one.enqueue(1)
    with running_worker():
        wait_for(lambda: Predecessor.objects.exists(), "it waits")
        assert Predecessor.objects.get().predecessor_id == first.pk
        first.run_now()
        wait_for_status(job, "SUCCESSFUL", "FAILED")
    assert len(statuses()["only_one"]) in (1, 2)


# Keeping


def test_success_is_kept_as_long_as_a_window_needs_it(path):
    dependent.generate_client.enqueue(path, 1)
    tasks.noop.enqueue()
    drain()
    ages = {"SUCCESSFUL": 0.0}
    assert upkeep.prune(execute, ages) == 1
    assert statuses() == {
        "refresh_client": ["SUCCESSFUL"],
        "generate_client": ["SUCCESSFUL"],
    } or statuses() == {
        "generate_client": ["SUCCESSFUL"],
        "refresh_client": ["SUCCESSFUL"],
    }
    assert status_of(dependent.send_client.enqueue(path, 1)) == "READY"
    drain()
    age_success(only("generate_client"), hours=2)
    age_success(only("refresh_client"), hours=0.9)
    assert upkeep.prune(execute, ages) == 2
    assert set(statuses()) == {"refresh_client"}
    assert Prerequisite.objects.count() == 1


def test_failed_cancelled_and_deleted_jobs_meet_no_needs(path):
    hand = Hand()
    for end in ("fail", "cancel", "discard"):
        job = dependent.refresh_client.enqueue(path, 1)
        assert Prerequisite.objects.filter(job_id=job.pk).count() == 1
        getattr(Job.objects.filter(pk=job.pk), end)()
        assert Prerequisite.objects.count() == 0
    job = dependent.refresh_client.enqueue(path, 1)
    assert hand.succeed(hand.claim_one())
    assert Prerequisite.objects.get(job_id=job.pk).finished_at is not None
    job.retry()
    assert Prerequisite.objects.get(job_id=job.pk).finished_at is None
    execute("TRUNCATE pgjobs_job CASCADE")
    assert Prerequisite.objects.count() == 0


# What people see


def test_status_names_jobs_for_which_no_worker_has_looked(path):
    job = dependent.send_client.enqueue(path, 1)
    Hand()
    admit()
    ago = job.enqueued_at - timedelta(seconds=61)
    assert overview("default").problems == []
    Job.objects.filter(pk=job.pk).update(enqueued_at=ago)
    assert overview("default").problems == [
        "1 job waits for a dependency that no worker has looked for."
    ]


def test_words_for_what_a_job_waits_for(path):
    job = dependent.use.enqueue(path)

    def said() -> str:
        return described(obstacles("default", [job.pk])[job.pk], [])

    assert said() == "waits until its queue is served"
    hand = Hand()
    assert said() == "waits for a worker to admit it"
    admit()
    assert said() == "waits until a worker looks for its dependency"
    hand.vanish()
    assert decide(1) == 1
    admit_all()
    prepare = only("prepare")
    assert said() == f"waits for job {prepare.pk} in queue default, no worker"
    (waiting,) = overview("default").waiting
    assert (waiting.kind, waiting.number) == ("dependency", 1)


def test_decision_is_left_to_one_worker_at_a_time(path):
    with session() as other:
        other.begin()
        other.execute("SELECT pg_advisory_xact_lock(1885825636, 0)")
        job = dependent.use.enqueue(path)
        tasks.let_go(path)
        with running_worker(poll=600) as loop:
            wait_for(lambda: loop.bell.alarm)
            job.refresh_from_db()
            assert job.blocked_by_id is None
            other.commit()
            wait_for_status(job, "SUCCESSFUL")


def test_job_that_waits_again_while_a_worker_decides_is_not_forgotten(path):
    job = dependent.use.enqueue(path)
    admit_all()
    job.cancel()

    def look():
        with session() as worker, worker.connection.transaction():
            assert Deciding(worker.execute, 1).run() == []
            assert admitting.admit(worker.execute).admitted == 0

    overlapping(job.retry, look)
    assert decide(1) == 1
    assert statuses() == {"use": ["WAITING"], "prepare": ["READY"]}


def test_two_workers_do_not_enqueue_the_same_dependency(path):
    enqueue_many([dependent.use.bind(path, number) for number in range(2)])
    admit_all()
    with session() as one, session() as other:
        one.begin()
        other.begin()
        assert len(Deciding(one.execute, 1).run()) == 1
        assert Deciding(other.execute, 100).run() == []
        one.commit()
        assert len(Deciding(other.execute, 100).run()) == 1
        other.commit()
    assert statuses() == {"use": ["WAITING"] * 2, "prepare": ["READY"]}


def test_plan_that_was_made_for_a_small_table_walks_no_index_from_end_to_end():
    with own_connection() as own:
        text, parameters = statement("depend"), {"decisions": "[]"}
        assert scans_of_whole_indexes(own, text, parameters) == []


def end_with_a_dependency() -> None:
    enqueue(dependent.need_that, os.devnull)


def test_end_of_each_job_is_announced_once(heard):  # noqa: F811
    check_that_ends_are_announced(heard, end_with_a_dependency)
