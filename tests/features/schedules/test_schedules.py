"""Schedules: what is stored of declarations, and what fires when."""

import itertools
import math
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction

from pgjobs import schedule, task
from pgjobs.base.queue_database import database_time
from pgjobs.exceptions import AlreadyEnqueued, InvalidArguments, InvalidTask
from pgjobs.features.schedules import queue as firing
from pgjobs.features.schedules.declare import bind, declarations, run_now
from pgjobs.features.schedules.options import Recurrence
from pgjobs.features.schedules.queue import DueSchedule
from pgjobs.models import Job, Schedule, Tick, Worker
from pgjobs.queue import upkeep
from pgjobs.sql import statement
from pgjobs.tasks import registry
from tests.actors import Hand, execute, overlapping, session
from tests.operators import make_job
from tests.plans import own_connection, scans_of_whole_indexes
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
    wait_for_status,
)
from tests.support.declared import store_schedules
from tests.tasks import noop

pytestmark = [shared_queue, pytest.mark.usefixtures("no_schedules")]

HOUR = timedelta(hours=1)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def report(region: str = "all"):
    pass


def crash():
    raise ValueError("no")


def make(name: str = "hourly", **columns) -> Schedule:
    """Store a schedule, due an hour from now."""
    columns = {"task": "tests.noop", "every": HOUR} | columns
    if "cron" in columns:
        columns["every"] = None
    made = Schedule(name=name, **columns)
    made.plan_again(database_time("default"))
    for column, value in columns.items():
        setattr(made, column, value)
    made.save()
    return made


def make_due(made: Schedule, ago: timedelta = timedelta(0)) -> datetime:
    """Let the schedule be due since so long, on a tick of its own; return the tick."""
    tick = database_time("default") - ago - timedelta(milliseconds=1)
    Schedule.objects.filter(pk=made.pk).update(next_run_at=tick, origin_at=tick)
    made.refresh_from_db()
    return tick


def fire_due(run=execute) -> int:
    """Do what a worker does when schedules are due; return how many jobs it made."""
    firing.next_fire(run)
    plans = [firing.plan(each) for each in firing.due_schedules(run)]
    with transaction.atomic():
        return firing.fire(run, plans, bind)[1]


def fresh(made: Schedule) -> Schedule:
    return Schedule.objects.select_related("last_job").get(pk=made.pk)


def finish(job: Job) -> None:
    assert job.succeed()


# What is declared


def test_task_with_an_interval_has_a_schedule_of_its_own():
    task(every=timedelta(hours=2), name="tests.report")(report)
    before = database_time("default")
    store_schedules("default")
    stored = Schedule.objects.get(name="tests.report")
    assert stored.task == "tests.report"
    assert stored.every == timedelta(hours=2)
    assert before < stored.next_run_at - timedelta(hours=2) < before + HOUR
    assert stored.kwargs == {"region": "all"}
    assert stored.in_words == "Every 2 hours"
    assert stored.differences == {}


def test_task_has_several_schedules_with_their_own_arguments():
    made = task(report)
    schedule(cron="0 3 * * mon-fri", timezone="Europe/Berlin")(made)
    schedule(every=HOUR, arguments={"region": "north"})(made)
    schedule(every=HOUR, arguments={"region": "south"}, name="the south")(made)
    store_schedules("default")
    stored = {each.name: each for each in Schedule.objects.all()}
    assert set(stored) == {
        "tests.report",
        "tests.report(region='north')",
        "the south",
    }
    assert stored["the south"].kwargs == {"region": "south"}
    assert (
        stored["tests.report"].in_words
        == "At 03:00 on Monday through Friday (Europe/Berlin)"
    )


def test_schedule_that_code_creates_by_the_model_has_its_first_run():
    before = database_time("default")
    made = Schedule.objects.create(name="mine", task="tests.noop", every=HOUR)
    assert before < made.next_run_at - HOUR <= database_time("default")
    assert made.state == "active"
    made.refresh_from_db()
    assert made.next_run_at == made.origin_at + HOUR
    Schedule.objects.filter(pk=made.pk).update(next_run_at=None)
    made.refresh_from_db()
    made.save()
    assert made.state == "ended"  # no new one: saved as it is
    wrong = Schedule.objects.create(name="wrong", task="tests.noop", cron="never")
    assert wrong.state == "broken"


def test_schedules_are_stored_once_and_left_alone():
    task(every=HOUR)(report)
    store_schedules("default")
    before = Schedule.objects.values().get()
    store_schedules("default")
    assert Schedule.objects.values().get() == before


def redeclare(**when) -> Schedule:
    """Declare the task again, as changed code does."""
    task(**when)(report)
    store_schedules("default")
    return Schedule.objects.get(name="tests.report")


def test_declaration_that_changed_is_taken_over():
    redeclare(every=HOUR)
    stored = redeclare(cron="0 3 * * *", timezone="UTC", overlap="allow")
    assert (stored.every, stored.cron, stored.overlap) == (None, "0 3 * * *", "allow")
    assert stored.next_run_at.hour == 3
    assert stored.differences == {}


def test_task_that_was_renamed_takes_its_named_schedule_along():
    schedule(every=HOUR, name="steady")(task(name="tests.before")(report))
    store_schedules("default")
    schedule(every=HOUR, name="steady")(task(name="tests.after")(report))
    store_schedules("default")
    assert Schedule.objects.get().task == "tests.after"


def test_change_by_hand_is_never_overwritten_and_said_to_differ():
    stored = redeclare(every=HOUR)
    stored.every = timedelta(minutes=5)
    stored.save()
    stored.pause()
    stored = redeclare(cron="0 3 * * *", overlap="allow")
    assert stored.every == timedelta(minutes=5)
    assert stored.cron == ""
    assert stored.paused
    assert stored.overlap == "allow"  # this was not touched
    assert set(stored.differences) == {"when"}
    value, declared = stored.differences["when"]
    assert value["every"] == 300
    assert declared["cron"] == "0 3 * * *"


def test_change_of_the_options_does_not_move_the_next_run():
    before = redeclare(every=HOUR)
    after = redeclare(every=HOUR, catch_up="none")
    assert after.next_run_at == before.next_run_at


def test_declaration_that_vanished_is_orphaned_and_fires_no_more():
    stored = redeclare(every=HOUR)
    del registry.tasks[(report.__module__, "report")]
    store_schedules("default")
    make_due(stored)
    assert fire_due() == 0
    assert fresh(stored).orphaned


def test_declaration_that_returns_fires_from_its_next_tick_on():
    stored = redeclare(every=HOUR)
    del registry.tasks[(report.__module__, "report")]
    store_schedules("default")
    make_due(stored, timedelta(days=3))
    stored = redeclare(every=HOUR)
    assert not stored.orphaned
    assert stored.next_run_at > database_time("default")


def test_schedule_made_by_hand_is_no_orphan():
    make()
    store_schedules("default")
    assert not Schedule.objects.get().orphaned


def test_two_processes_may_store_the_same_declaration_at_the_same_time():
    task(every=HOUR)(report)
    overlapping(lambda: store_schedules("default"), lambda: store_schedules("default"))
    assert Schedule.objects.count() == 1


def test_migrate_stores_what_is_declared():
    task(every=HOUR)(report)
    call_command("migrate", verbosity=0)
    assert Schedule.objects.filter(name="tests.report").exists()


def test_interval_may_be_seconds():
    for seconds in (3600, 3600.0):
        made = schedule(every=seconds)(task(every=seconds)(report))
        assert [each.every for each in made.declarations[Recurrence]] == [HOUR, HOUR]


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ({}, "either every= or cron="),
        ({"every": HOUR, "cron": "@daily"}, "either every= or cron="),
        ({"every": "5"}, "every must be seconds or a timedelta"),
        ({"every": True}, "every must be seconds or a timedelta"),
        ({"every": 0.5}, "every must be between 1 s and 100 years"),
        ({"every": math.nan}, "every must be between 1 s and 100 years"),
        ({"every": 1e300}, "every must be between 1 s and 100 years"),
        ({"cron": "@reboot"}, "knows @hourly"),
        ({"cron": "0 0 31 2 *"}, "never fires"),
        ({"cron": "@daily", "timezone": "Mars"}, "timezone must be"),
        ({"every": HOUR, "overlap": "maybe"}, "overlap of a schedule must be"),
        ({"every": HOUR, "catch_up": True}, "catch_up of a schedule must be"),
        ({"cron": "@daily", "anchor": "end"}, "goes with every="),
        ({"every": HOUR, "jitter": -1}, "jitter must be"),
        ({"every": HOUR, "start": datetime(2026, 1, 1)}, "start of a schedule must"),
        ({"every": HOUR, "start": NOON, "end": NOON}, "before its end"),
        ({"every": HOUR, "name": ""}, "name of a schedule"),
        ({"every": HOUR, "name": "a" * 201}, "name of a schedule"),
        ({"every": HOUR, "name": "a\0b"}, "contains NUL"),
        ({"every": HOUR, "arguments": ["north"]}, "must be a dict"),
        ({"every": HOUR, "evry": 1}, "no option 'evry'"),
    ],
)
def test_schedule_that_cannot_work_is_refused_where_it_is_declared(when, told):
    with pytest.raises(InvalidTask, match=told):
        schedule(**when)(task(report))


def test_decorator_below_task_says_where_it_belongs():
    with pytest.raises(InvalidTask, match="above @task"):
        schedule(every=HOUR)(report)


def test_arguments_that_do_not_fit_the_task_are_refused():
    schedule(every=HOUR, arguments={"region": 5})(task(report))
    with pytest.raises(InvalidArguments, match="region"):
        store_schedules("default")


def test_two_schedules_of_one_name_are_refused():
    schedule(every=HOUR)(task(every=timedelta(hours=2))(report))
    assert len(list(declarations())) == 2
    with pytest.raises(InvalidTask, match="2 schedules have the name"):
        store_schedules("default")


# What fires


def test_schedule_that_is_due_makes_a_job_and_is_due_again_a_period_later():
    task(max_attempts=7, queue_name="reports", priority=5)(report)
    made = make(task="tests.report", kwargs={"region": "north"})
    tick = make_due(made)
    assert fire_due() == 1
    job = Job.objects.get()
    assert (job.task, job.kwargs) == ("tests.report", {"region": "north"})
    assert (job.max_attempts, job.queue_name, job.priority) == (7, "reports", 5)
    made = fresh(made)
    assert made.next_run_at == tick + HOUR
    assert (made.last_job, made.run_count) == (job, 1)
    assert job.tick.time == tick


def test_schedule_that_is_not_due_makes_no_job():
    make()
    assert fire_due() == 0
    assert firing.next_fire(execute).seconds > 3_000


def test_tick_makes_one_job_whichever_worker_is_first():
    """Both have planned before either fires."""
    made = make()
    make_due(made)
    plans = [firing.plan(each) for each in firing.due_schedules(execute)]

    def fire():
        with transaction.atomic():
            return firing.fire(execute, plans, bind)

    first, second = overlapping(fire, fire)
    assert (first, second) == ((1, 1), (0, 0))
    assert Job.objects.count() == 1


def test_plan_that_another_worker_has_carried_out_does_nothing():
    """Also after the winner has committed, whatever became of the ticks."""
    made = make()
    make_due(made)
    plans = [firing.plan(each) for each in firing.due_schedules(execute)]
    assert firing.fire(execute, plans, bind) == (1, 1)
    Job.objects.all().discard()
    later = database_time("default") + timedelta(days=9)
    Schedule.objects.update(next_run_at=later)
    assert firing.fire(execute, plans, bind) == (0, 0)
    assert (Job.objects.count(), fresh(made).next_run_at) == (0, later)


def test_tick_of_a_worker_that_rolled_back_is_fired_by_another():
    made = make()
    make_due(made)
    plans = [firing.plan(each) for each in firing.due_schedules(execute)]
    with session() as other:
        other.begin()
        assert firing.fire(other.execute, plans, bind) == (1, 1)
        other.connection.close()  # as when it is killed
    wait_for(lambda: fire_due() == 1, "it fires")
    assert (Job.objects.count(), Tick.objects.count()) == (1, 1)


def test_tick_that_was_fired_makes_no_second_job_even_if_the_schedule_is_set_back():
    made = make()
    tick = make_due(made)
    assert fire_due() == 1
    finish(Job.objects.get())
    Schedule.objects.filter(pk=made.pk).update(next_run_at=tick)
    assert fire_due() == 0
    assert Job.objects.count() == 1
    assert fresh(made).next_run_at == tick + HOUR


def test_database_has_no_tick_twice():
    made = make()
    Tick.objects.create(schedule=made, time=NOON)
    with pytest.raises(IntegrityError, match="pgjobs_tick_once"), transaction.atomic():
        Tick.objects.create(schedule=made, time=NOON)


def test_schedule_that_is_being_edited_is_skipped_without_waiting():
    held, free = make("held"), make("free")
    make_due(held), make_due(free)
    with session() as editor:
        editor.begin()
        editor.execute(f"SELECT FROM pgjobs_schedule WHERE id = {held.pk} FOR UPDATE")
        execute("SET lock_timeout = '1s'")
        assert fire_due() == 1
        editor.commit()
    assert fire_due() == 1


@pytest.mark.parametrize("change", [{"paused": True}, {"orphaned": True}])
def test_schedule_that_was_stopped_meanwhile_does_not_fire(change):
    made = make()
    make_due(made)
    plans = [firing.plan(each) for each in firing.due_schedules(execute)]
    Schedule.objects.filter(pk=made.pk).update(**change)
    assert firing.fire(execute, plans, bind) == (0, 0)


def test_arguments_that_were_edited_meanwhile_are_those_of_the_job():
    made = make(task="tests.echo", kwargs={"value": 1})
    make_due(made)
    plans = [firing.plan(each) for each in firing.due_schedules(execute)]
    Schedule.objects.filter(pk=made.pk).update(kwargs={"value": 2})
    with transaction.atomic():
        firing.fire(execute, plans, bind)
    assert Job.objects.get().kwargs == {"value": 2}


def test_run_that_fails_does_not_stop_its_schedule():
    task(max_attempts=1, name="tests.crash")(crash)
    made = make(task="tests.crash")
    for _ in range(2):
        make_due(made)
        assert fire_due() == 1
        drain()
    assert fresh(made).run_count == 2
    assert fresh(made).last_job.status == "FAILED"
    assert fresh(made).error == ""


def test_schedule_of_an_unknown_task_still_makes_its_job():
    """It waits for a worker that knows the task, or fails visibly."""
    make_due(make(task="tests.unknown"))
    assert fire_due() == 1
    assert Job.objects.get().task == "tests.unknown"


def test_schedule_that_sql_has_broken_says_so_and_stops_no_other():
    broken, fine = make("broken", cron="0 3 * * *"), make("fine")
    make_due(broken), make_due(fine)
    Schedule.objects.filter(pk=broken.pk).update(timezone="Mars/Olympus")
    assert fire_due() == 1
    assert "Mars/Olympus" in fresh(broken).error
    assert fresh(broken).next_run_at is None
    assert firing.due_schedules(execute) == []


def test_jitter_delays_each_job_at_random_and_no_tick(monkeypatch):
    monkeypatch.setattr(
        "pgjobs.features.schedules.declare.uniform", lambda least, most: most
    )
    made = make(jitter=timedelta(minutes=5))
    tick = make_due(made)
    assert fire_due() == 1
    job = Job.objects.get()
    assert job.status == "SCHEDULED"
    wait = job.run_after - job.enqueued_at
    assert abs(wait - timedelta(minutes=5)) < timedelta(seconds=1)
    assert fresh(made).next_run_at == tick + HOUR


# Overlap, missed ticks, and intervals from the end


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_second_run_waits_for_the_first_or_does_not(overlap):
    made = make(overlap=overlap)
    make_due(made)
    assert fire_due() == 1
    tick = make_due(made)
    assert fire_due() == (overlap == "allow")
    made = fresh(made)
    assert made.skip_count == (overlap == "skip")
    assert made.next_run_at == tick + HOUR
    Job.objects.all().succeed()
    make_due(made)
    assert fire_due() == 1


def test_run_that_is_gone_holds_up_nothing():
    made = make()
    make_due(made)
    fire_due()
    Job.objects.all().discard()
    make_due(made)
    assert fire_due() == 1


@pytest.mark.parametrize(("catch_up", "jobs"), [("latest", 1), ("all", 4), ("none", 0)])
def test_ticks_missed_while_no_worker_was_there(catch_up, jobs):
    made = make(catch_up=catch_up)
    tick = make_due(made, 3 * HOUR + timedelta(minutes=10))
    assert fire_due() == jobs
    assert Job.objects.count() == jobs
    assert fresh(made).next_run_at == tick + 4 * HOUR
    times = [tick + number * HOUR for number in range(4)]
    assert (
        list(Tick.objects.order_by("time").values_list("time", flat=True))
        == (times[4 - jobs :])
    )


def test_tick_in_time_is_no_missed_one():
    made = make(catch_up="none")
    make_due(made, 2 * HOUR)  # two were missed, this one comes just now
    assert fire_due() == 1


def test_schedule_that_sql_has_broken_says_why_when_it_is_resumed():
    made = make()
    made.pause()
    execute("UPDATE pgjobs_schedule SET every = NULL, cron = '0 3 * * *'")
    execute("UPDATE pgjobs_schedule SET timezone = 'Mars/Olympus'")
    assert made.resume()
    assert (made.state, made.next_run_at) == ("broken", None)
    assert "Mars/Olympus" in made.error
    execute("UPDATE pgjobs_schedule SET timezone = 'UTC', paused = true")
    assert made.resume()
    assert (made.state, made.error) == ("active", "")


@task(lock="door")
def held(): ...


@task(unique=True)
def alone(place: str = "here"): ...


@task(unique=True, unique_for=HOUR)
def once_an_hour(): ...


def test_schedule_makes_no_job_while_another_one_holds_its_unique_key():
    registry.add(alone)
    other = alone.enqueue()
    made = make(task=alone.name, overlap="allow", kwargs={"place": "here"})
    tick = make_due(made)
    assert fire_due() == 0
    made = fresh(made)
    assert (made.run_count, made.skip_count, made.last_job_id) == (0, 1, None)
    assert made.next_run_at > tick
    assert not Tick.objects.exists()
    finish(other)
    make_due(made)
    assert fire_due() == 1
    assert alone.enqueue() == fresh(made).last_job


def test_schedules_that_fire_together_share_a_key_like_other_jobs():
    registry.add(alone)
    for name in ("one", "two"):
        make_due(make(name, task=alone.name, kwargs={"place": "here"}))
    make_due(make("free"))
    assert fire_due() == 2
    assert Job.objects.filter(task=alone.name).count() == 1
    assert sorted(Schedule.objects.values_list("name", "run_count")) == [
        ("free", 1),
        ("one", 1),
        ("two", 0),
    ]


def test_period_of_a_unique_key_that_is_over_holds_no_schedule_back():
    registry.add(once_an_hour)
    finish(once_an_hour.enqueue())
    made = make(task=once_an_hour.name)
    make_due(made)
    assert fire_due() == 0
    Job.objects.update(unique_until=NOON)
    make_due(made)
    assert fire_due() == 1


def test_interval_from_the_end_of_a_run_that_its_key_forbade_begins_at_once():
    registry.add(once_an_hour)
    finish(once_an_hour.enqueue())
    made = make(task=once_an_hour.name, anchor="end", every=HOUR)
    make_due(made)
    before = database_time("default")
    assert fire_due() == 0
    assert fresh(made).next_run_at - before >= HOUR


def test_transaction_that_holds_a_unique_key_stops_no_worker():
    registry.add(alone)
    made = make(task=alone.name, kwargs={"place": "here"})
    with session() as other:
        other.begin()
        key = alone.bind().new_job.unique_key
        other.execute(
            "INSERT INTO pgjobs_job (task, unique_key, unique_for)"
            " VALUES ('x', %(key)s, 'unfinished')",
            {"key": key},
        )
        make_due(made)
        make_due(make("free"))
        with running_worker(poll=600):
            wait_for(lambda: Job.objects.filter(task="tests.noop").exists())
            job = noop.enqueue()
            wait_for_status(job, "SUCCESSFUL")
            assert fresh(made).run_count == 0
            other.rollback()
            wait_for(lambda: fresh(made).run_count == 1, "it has fired")


def test_run_that_an_operator_asks_for_respects_the_unique_key():
    registry.add(alone)
    other = alone.enqueue()
    made = make(task=alone.name, kwargs={"place": "here"})
    with pytest.raises(AlreadyEnqueued) as raised:
        run_now(made)
    assert raised.value.job == other
    assert (Job.objects.count(), fresh(made).run_count) == (1, 0)
    finish(other)
    latest = run_now(made)
    assert list(Job.objects.holding_keys()) == [latest]


def test_tick_that_overlap_skipped_was_not_missed():
    made = make(catch_up="all")
    make_due(made)
    assert fire_due() == 1
    make_due(made, timedelta(seconds=1))
    assert fire_due() == 0
    Job.objects.all().succeed()
    assert fire_due() == 0


@pytest.mark.parametrize(("catch_up", "jobs"), [("latest", 1), ("all", 9), ("none", 0)])
@pytest.mark.parametrize("has_begun", [False, True])
def test_ticks_missed_while_the_last_run_was_unfinished_run_after_it(
    catch_up, jobs, has_begun
):
    """The workers went away before it began, or in the middle of it."""
    made = make(catch_up=catch_up, task="tests.add", kwargs={"a": 1})
    make_due(made)
    assert fire_due() == 1
    hand = Hand()
    if has_begun:
        assert hand.claim_one()
    first = Job.objects.get()
    tick = make_due(made, 8 * HOUR + timedelta(minutes=10))
    assert fire_due() == jobs
    made = fresh(made)
    assert made.next_run_at == tick + 9 * HOUR
    assert made.skip_count == (9 if catch_up == "none" else 0)
    caught_up = Job.objects.exclude(pk=first.pk)
    assert set(caught_up.values_list("status", "waiting_for")) <= {
        ("WAITING", "predecessor")
    }
    make_due(made)
    assert fire_due() == 0  # the ticks that come now are skipped
    if has_begun:
        hand.vanish()
        Hand("other").rescue()
    drain()
    assert Job.objects.filter(status="SUCCESSFUL").count() == jobs + 1
    assert all(job.started_at >= first_end(first) for job in caught_up.all())


@pytest.mark.parametrize(("catch_up", "jobs"), [("latest", 1), ("all", 1), ("none", 0)])
def test_only_tick_of_an_outage_runs_after_the_last_run(catch_up, jobs):
    """As of a daily schedule whose worker went away in the middle of a run."""
    made = make(catch_up=catch_up)
    make_due(made)
    assert fire_due() == 1
    make_due(made, timedelta(minutes=10))
    assert fire_due() == jobs
    assert fresh(made).skip_count == 1 - jobs
    drain()
    assert Job.objects.filter(status="SUCCESSFUL").count() == 1 + jobs


def first_end(job: Job) -> datetime:
    job.refresh_from_db()
    return job.finished_at


def test_missed_ticks_wait_for_the_last_run_alone_and_keep_their_keys():
    registry.add(held)
    made = make(catch_up="latest", task=held.name)
    make_due(made)
    assert fire_due() == 1
    make_due(made, 3 * HOUR)
    assert fire_due() == 1
    first, second = Job.objects.order_by("pk")
    assert second.keys == {**first.keys, "after": [first.pk], "needs": "end"}
    first.cancel()
    drain()
    second.refresh_from_db()
    assert second.status != "CANCELLED"


def test_skipped_ticks_are_all_counted():
    made = make(catch_up="none")
    make_due(made, 5 * HOUR + timedelta(minutes=10))
    assert fire_due() == 0
    assert fresh(made).skip_count == 6


def test_years_of_missed_seconds_are_neither_walked_through_nor_all_made_jobs():
    made = make(every=timedelta(seconds=1), catch_up="all")
    make_due(made, timedelta(days=1_000))
    assert fire_due() == firing.MOST_CAUGHT_UP


def due(**changes) -> DueSchedule:
    values = {
        "id": 1,
        "name": "due",
        "every": HOUR,
        "cron": "",
        "timezone": "UTC",
        "origin": NOON,
        "start": None,
        "end": None,
        "anchor": "start",
        "overlap": "skip",
        "catch_up": "latest",
        "next_run_at": NOON,
        "is_unfinished": False,
        "now": NOON,
    }
    return DueSchedule(**values | changes)


def test_last_tick_before_the_end_is_the_last_run():
    planned = firing.plan(due(end=NOON + timedelta(minutes=30)))
    assert planned.ticks == [NOON]
    assert planned.next_run_at is None


def test_interval_from_the_end_waits_for_the_end():
    planned = firing.plan(due(anchor="end", now=NOON + HOUR))
    assert (planned.ticks, planned.next_run_at) == ([NOON], None)


def test_interval_from_the_end_never_overlaps():
    planned = firing.plan(due(anchor="end", overlap="allow", is_unfinished=True))
    assert (planned.ticks, planned.next_run_at) == ((), None)


def test_missed_run_of_an_interval_from_the_end_is_put_off():
    now = NOON + timedelta(minutes=5)
    planned = firing.plan(due(anchor="end", catch_up="none", now=now))
    assert (planned.ticks, planned.next_run_at) == ((), now + HOUR)


def test_interval_from_the_end_is_counted_from_there():
    made = make(anchor="end", every=timedelta(days=1))
    make_due(made)
    assert fire_due() == 1
    assert fresh(made).next_run_at is None
    assert firing.next_fire(execute).seconds is None
    finish(Job.objects.get())
    assert firing.next_fire(execute).seconds > 86_000
    job = Job.objects.get()
    assert fresh(made).next_run_at == job.finished_at + timedelta(days=1)


def test_day_from_the_end_has_24_hours_whatever_time_zone_the_session_has():
    """An interval of PostgreSQL would have 23 when summer time begins."""
    made = make(anchor="end", every=timedelta(days=1))
    make_due(made)
    fire_due()
    finish(Job.objects.get())
    end = datetime(2026, 3, 28, 12, tzinfo=UTC)
    Job.objects.update(finished_at=end)
    with session(options="-c timezone=Europe/Berlin") as worker:
        firing.next_fire(worker.execute)
    assert fresh(made).next_run_at == end + timedelta(hours=24)


def test_interval_from_the_end_of_a_run_that_is_gone_begins_now():
    made = make(anchor="end")
    make_due(made)
    fire_due()
    Job.objects.all().discard()
    firing.next_fire(execute)
    left = fresh(made).next_run_at - database_time("default")
    assert timedelta(minutes=59) < left <= HOUR


def test_worker_looks_for_ended_runs_slice_by_slice(monkeypatch):
    monkeypatch.setattr(firing, "MOST_AWAITING", 2)
    made = [make(name=str(number), anchor="end") for number in range(5)]
    for each in made:
        make_due(each)
    assert fire_due() == 5
    finish(fresh(made[-1]).last_job)  # the others still run
    with running_worker(poll=600, queues=("none",)):
        wait_for(lambda: fresh(made[-1]).next_run_at)
    assert Schedule.objects.filter(next_run_at=None).count() == 4


# People


def test_paused_schedule_does_not_fire_and_misses_nothing():
    made = make(catch_up="all")
    assert made.pause()
    assert not made.pause()
    tick = make_due(made, 3 * HOUR)
    assert fire_due() == 0
    assert made.resume()
    assert not made.resume()
    assert fire_due() == 0
    assert fresh(made).next_run_at == tick + 4 * HOUR


def test_run_now_makes_a_job_and_leaves_the_times_alone():
    made = make(task="tests.echo", kwargs={"value": 5})
    before = made.next_run_at
    job = run_now(made)
    made = fresh(made)
    assert job.kwargs == {"value": 5}
    assert (made.last_job, made.run_count) == (job, 1)
    assert made.next_run_at == before
    assert job.tick.schedule == made


def test_run_now_that_is_rolled_back_leaves_nothing():
    made = make()
    with transaction.atomic():
        run_now(made)
        transaction.set_rollback(True)
    assert (Job.objects.count(), fresh(made).run_count) == (0, 0)


def test_next_runs_are_those_that_will_be():
    made = make(cron="30 2 * * *", timezone="Europe/Berlin")
    runs = made.next_runs(5)
    assert len(runs) == 5
    assert runs == made.timetable.following(database_time("default"), 5)
    made.pause()
    assert made.next_runs(5) == []


# Pruning


def test_last_run_of_a_schedule_is_not_pruned_and_its_earlier_ones_are():
    made = make()
    for _ in range(2):
        make_due(made)
        assert fire_due() == 1
        Job.objects.ready().succeed()
    Job.objects.update(finished_at=NOON - timedelta(days=900))
    assert upkeep.prune(execute, {"SUCCESSFUL": 60.0}) == 1
    assert Job.objects.get() == fresh(made).last_job
    assert Tick.objects.get().job == fresh(made).last_job


def test_prunejobs_names_the_last_run_of_a_schedule_that_it_has_left(capsys):
    jobs = [make_job("SUCCESSFUL") for _ in range(3)]
    for job in jobs[:2]:
        Schedule.objects.create(
            name=f"{job.pk}", task="tests.noop", every=HOUR, last_job=job
        )
    call_command("prunejobs", "--older", "0s")
    assert capsys.readouterr().out.splitlines() == [
        "Deleted 1 job.",
        "Skipped 2 jobs: the last run of a schedule.",
    ]


def test_ticks_go_with_their_schedule_and_jobs_stay():
    made = make()
    make_due(made)
    fire_due()
    made.delete()
    assert (Tick.objects.count(), Job.objects.count()) == (0, 1)


# The worker


def test_idle_worker_sleeps_no_longer_than_until_the_next_tick(settings):
    """Without the tick it would look only after minutes, at a poll or a survey."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    made = make(every=timedelta(seconds=1), overlap="allow")
    with running_worker(poll=600):
        wait_for(lambda: Job.objects.count() >= 3, "it fires")
    late = [tick.job.enqueued_at - tick.time for tick in made.ticks.all()]
    assert min(late) < timedelta(seconds=1)


def test_draining_worker_fires_what_is_due():
    for number in range(3):
        make_due(make(f"number {number}"))
    assert drain().finished == 3


def test_one_schedule_that_cannot_be_fired_stops_no_other(monkeypatch):
    broken, fine = make("broken", jitter=timedelta(seconds=1)), make("fine")
    make_due(broken), make_due(fine)

    def fail(*args):
        raise ValueError("no luck")

    monkeypatch.setattr("pgjobs.features.schedules.declare.uniform", fail)
    assert drain().finished == 1
    assert "no luck" in fresh(broken).error
    assert fresh(broken).next_run_at > database_time("default")
    assert fresh(fine).run_count == 1


def test_idle_worker_without_schedules_asks_once_a_survey():
    with running_worker(poll=600, queues=("none",)) as loop:
        wait_for(lambda: loop.bell.alarm)
        with statements_of_workers() as executed:
            before = loop.upkeep["schedules"].due
            loop.upkeep["schedules"].due = 0
            loop.bell.ring()
            wait_for(lambda: loop.upkeep["schedules"].due > before)
    assert executed.count("loop next_fire") == 1
    assert "loop due_schedules" not in executed


def test_ten_thousand_schedules_are_not_read_by_an_idle_worker():
    execute(
        "INSERT INTO pgjobs_schedule (name, task, every, next_run_at)"
        " SELECT number, 'tests.noop', '1 h', now() + '1 d'"
        " FROM generate_series(1, 10000) AS number"
    )
    execute("ANALYZE pgjobs_schedule")
    for _ in range(2):  # the first one also reads the catalogue
        ((explained,),) = execute(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement("next_fire"),
            {"after": 0, "limit": 1_000},
        )
    plan = explained[0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 20


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("fire", firing.columns([])),
        ("next_fire", {"after": 0, "limit": 100}),
        ("link_ticks", {"ticks": [], "jobs": []}),
    ],
)
def test_plan_that_was_made_for_a_small_table_walks_no_index_from_end_to_end(
    name, parameters
):
    """A worker that started on an empty queue keeps its plans as the table grows."""
    with own_connection() as own:
        assert scans_of_whole_indexes(own, statement(name), parameters) == []


def test_several_workers_fire_each_tick_once_while_they_are_killed(start_worker):
    settings = {
        "TASK_MODULES": ["tests.support.scheduled"],
        "HEARTBEAT_INTERVAL": 1,
        "LEASE_DURATION": 3,
    }
    workers = [
        start_worker("--poll", "600", settings=settings, registered=False)
        for _ in range(3)
    ]
    wait_for(lambda: Worker.objects.count() == 3, "they are registered", 60)
    made = Schedule.objects.get(name="tests.each_second")
    for worker in workers[:2]:
        seen = Tick.objects.count()
        wait_for(lambda seen=seen: Tick.objects.count() > seen, "it fires")
        worker.kill()
    seen = Tick.objects.count()
    wait_for(lambda: Tick.objects.count() > seen + 1, "it fires")
    workers[2].kill()
    times = [tick.time for tick in made.ticks.order_by("time")]
    assert Job.objects.count() == len(times) == fresh(made).run_count
    gaps = {later - earlier for earlier, later in itertools.pairwise(times)}
    assert gaps == {timedelta(seconds=1)}
