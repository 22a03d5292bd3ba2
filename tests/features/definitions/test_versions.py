"""Workers of two versions of the code take nothing from each other."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.db.models import F

from pgjobs import publish, task
from pgjobs.base.queue_database import DECLARING_LOCK, database_time
from pgjobs.features.definitions import declaring, manifests
from pgjobs.features.definitions.chore import Versions
from pgjobs.features.definitions.tables import ManifestEntry
from pgjobs.models import Job, Manifest, Schedule, Subscription, TaskDefinition, Worker
from pgjobs.queue.statements import DjangoClient
from pgjobs.tasks import registry
from tests.actors import execute, session
from tests.processes import (
    WorkerProcess,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
    wait_for_status,
)

pytestmark = [shared_queue, pytest.mark.usefixtures("nothing_declared")]

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
OLD, NEW, GRAPHICS = "old", "new", "graphics"


def fresh(): ...


@pytest.fixture
def nothing_declared(no_schedules, no_subscriptions):
    """Begin as after the first migration of a database."""
    for model in (ManifestEntry, Manifest, TaskDefinition):
        model.objects.all().delete()


@pytest.fixture
def start(start_worker):
    """Start workers that import one of the modules in tests/versions/."""

    def start(code: str, **settings) -> WorkerProcess:
        modules = {"TASK_MODULES": [f"tests.versions.{code}"]}
        return start_worker(settings={**modules, **settings})

    return start


def active_schedules() -> dict[str, object]:
    """Return the times of the schedules of the versions."""
    rows = Schedule.objects.active().filter(name__startswith="versions.")
    return {row.name: row.every or row.cron for row in rows}


def active_handlers() -> dict[str, int]:
    rows = Subscription.objects.active().filter(event="version.noted")
    return dict(rows.values_list("task", "max_attempts"))


def active_tasks() -> set[str]:
    rows = TaskDefinition.objects.active().filter(name__startswith="versions.")
    return set(rows.values_list("name", flat=True))


def in_force() -> list[list[dict]]:
    """Return all rows that say what is declared, with all their values."""
    models = (TaskDefinition, Schedule, Subscription)
    return [list(model.objects.order_by("pk").values()) for model in models]


def pass_time(time: timedelta) -> None:
    """Let so much time have passed for versions, in which none was seen."""
    Manifest.objects.update(
        appeared_at=F("appeared_at") - time, lives_until=F("lives_until") - time
    )


def look(worker: WorkerProcess) -> None:
    """Do what a worker does each minute, for one that has been alive for an hour."""
    row = Worker.objects.get(pid=worker.pid)
    since = database_time("default") - HOUR
    Worker.objects.filter(pk=row.pk).update(beating_since=since)
    Versions({"id": row.pk}, "default").run(DjangoClient("default"))


def stop(*workers: WorkerProcess) -> None:
    for worker in workers:
        assert worker.stop() == 0
    pass_time(4 * MINUTE)


def problems() -> list[str]:
    out = StringIO()
    call_command("jobstatus", "--json", stdout=out)
    shown = json.loads(out.getvalue())
    return shown["problems"] + [each["text"] for each in shown["remarks"]]


BOTH_IN_FORCE = {
    "versions.both": timedelta(hours=3),
    "versions.only_old": "0 3 * * *",
    "versions.only_new": timedelta(hours=2),
}
BOTH_HANDLE = {
    "versions.handle": 5,
    "versions.handle_as_before": 8,
    "versions.handle_at_last": 8,
}


def test_deploy_takes_nothing_from_the_workers_of_before(start):
    start(OLD)
    start(NEW)
    assert active_schedules() == BOTH_IN_FORCE
    assert active_handlers() == BOTH_HANDLE
    assert {"versions.only_old", "versions.only_new"} <= active_tasks()


def test_restart_of_an_old_pod_changes_nothing(start):
    old = start(OLD)
    new = start(NEW)
    before = in_force()
    stop(old)
    start(OLD)
    assert in_force() == before
    look(new)
    assert in_force() == before
    event = publish("version.noted")
    handlers = Job.objects.filter(delivery__event=event).values_list("task", flat=True)
    assert set(handlers) == BOTH_HANDLE.keys()


@pytest.mark.parametrize("settings", [({}, {}), ({"VERSION": "9"}, {"VERSION": "10"})])
def test_sql_enqueues_what_only_the_new_version_declares(start, settings):
    """With its arguments checked, also after another start of the old version."""
    of_old, of_new = settings
    start(OLD, **of_old)
    start(NEW, **of_new)
    start(OLD, **of_old)
    enqueue = "SELECT pgjobs_enqueue(%(task)s, %(kwargs)s::jsonb)"
    for name, kwargs in (
        ("versions.only_new", '{"number": 3}'),
        ("versions.both", '{"year": 1999}'),
        ("versions.only_old", "{}"),
    ):
        ((id,),) = execute(enqueue, {"task": name, "kwargs": kwargs})
        assert Job.objects.get(pk=id).task == name


def test_what_the_deploy_has_removed_goes_with_its_last_worker(start):
    old, new = start(OLD), start(NEW)
    stop(old)
    look(new)
    assert active_schedules().keys() == {"versions.both", "versions.only_new"}
    assert active_handlers().keys() == {"versions.handle", "versions.handle_at_last"}
    assert "versions.only_old" not in active_tasks()
    assert Schedule.objects.get(name="versions.only_old").orphaned


def test_worker_that_was_away_for_a_moment_takes_nothing_along(start):
    old, new = start(OLD), start(NEW)
    before = in_force()
    old.stop()
    pass_time(MINUTE)
    look(new)
    assert in_force() == before


def test_rollback_wins_when_the_last_new_worker_has_gone(start):
    old = start(OLD)
    new = start(NEW)
    stop(new)
    look(old)
    assert active_schedules() == {
        "versions.both": HOUR,
        "versions.only_old": "0 3 * * *",
    }
    assert active_handlers() == {
        "versions.handle": 2,
        "versions.handle_as_before": 8,
    }
    assert "versions.only_new" not in active_tasks()
    before = in_force()
    start(OLD)  # it does not bring back what has gone
    assert in_force() == before


def test_rollback_to_a_version_that_was_away_wins_at_once(start):
    stop(start(OLD))
    pass_time(2 * HOUR)
    start(NEW)
    start(OLD)
    assert active_schedules() == BOTH_IN_FORCE | {"versions.both": HOUR}
    assert active_handlers() == BOTH_HANDLE | {"versions.handle": 2}


def test_canary_decides_while_it_lives(start):
    old = start(OLD)
    before = active_schedules()
    canary = start(NEW)
    assert active_schedules() == BOTH_IN_FORCE
    canary.kill()
    Worker.objects.filter(pid=canary.pid).delete()  # as its rescuer does
    pass_time(4 * MINUTE)
    look(old)
    assert active_schedules() == before


def test_workers_with_modules_of_their_own_do_not_flip_each_other(start):
    for settings in ({}, {"VERSION": "1"}):
        plain = start(OLD, **settings)
        graphics = start(GRAPHICS, **settings)
        before = in_force()
        assert {"versions.render", "versions.both"} <= active_schedules().keys()
        for code in (OLD, GRAPHICS, OLD):
            start(code, **settings)
            assert in_force() == before
        for worker in (plain, graphics):
            look(worker)
            assert in_force() == before
        assert not problems()


def test_start_alone_lets_nothing_go(start):
    """The others may be about to start, too: as after an outage."""
    stop(start(OLD))
    before = active_schedules()
    start(GRAPHICS)
    assert active_schedules() == before | {"versions.render": HOUR}


def test_young_worker_does_not_judge_others(start):
    stop(start(OLD))
    before = in_force()
    young = start(OLD)
    row = Worker.objects.get(pid=young.pid)
    pass_time(HOUR)
    Versions({"id": row.pk}, "default").run(DjangoClient("default"))
    assert in_force() == before


def test_nothing_goes_while_a_worker_lives_that_has_told_nothing(start):
    """As those of 0.9.0: it is not known what they declare."""
    old, new = start(OLD), start(NEW)
    stranger = Worker.objects.get(pid=new.pid)
    stranger.pk, stranger.manifest_id = stranger.pk + 1_000, None
    stranger.pid = 0
    stranger.save(force_insert=True)
    stop(old)
    look(new)
    assert active_schedules() == BOTH_IN_FORCE
    # It orphans by itself what it does not declare. That is mended.
    Schedule.objects.filter(name="versions.only_new").update(orphaned=True)
    Subscription.objects.filter(task="versions.handle_at_last").delete()
    look(new)
    assert active_schedules() == BOTH_IN_FORCE
    assert active_handlers() == BOTH_HANDLE
    stranger.delete()
    look(new)
    assert "versions.only_old" not in active_schedules()


def test_what_migrate_declares_lives_for_an_hour(start):
    made = task(name="versions.fresh", every=HOUR)(fresh)
    call_command("migrate", verbosity=0)
    del registry.tasks[made.origin]
    old = start(OLD)
    pass_time(58 * MINUTE)
    look(old)
    assert active_schedules()["versions.fresh"] == HOUR
    pass_time(3 * MINUTE)
    look(old)
    assert "versions.fresh" not in active_schedules()


def test_check_names_what_two_versions_declare_differently(start):
    start(OLD, VERSION="2026.1")
    assert problems() == []
    new = start(NEW, VERSION="2026.2")
    (problem,) = problems()
    assert "(versions 2026.2, 2026.1)" in problem
    assert problem.endswith(
        "schedule versions.both, subscription of versions.handle to version.noted, "
        "task versions.both, task versions.handle."
    )
    stop(new)
    assert problems() == []


def test_session_that_holds_the_lock_keeps_no_worker_from_starting(start_worker):
    holding = "SELECT pg_advisory_lock(%(lock)s), pg_backend_pid()"
    with session() as other:
        ((_, pid),) = other.execute(holding, {"lock": DECLARING_LOCK})
        worker = start_worker(settings={"TASK_MODULES": ["tests.versions.new"]})
        assert f"pid={pid} " in worker.printed
        assert active_schedules() == {}
        job = Job.objects.create(task="versions.only_new")
        wait_for_status(job, "SUCCESSFUL")


def test_worker_stores_later_what_it_could_not_store():
    task(name="versions.fresh", every=HOUR)(fresh)
    with running_worker(poll=600) as loop:
        loop.upkeep["versions"].due = 0
        loop.bell.ring()
        wait_for(active_schedules, "they are stored")
        stored = Manifest.objects.get().pk
        beaten = Worker.objects.filter(manifest_id=stored)
        loop.heartbeat.beat()
        assert beaten.exists()


def test_worker_lets_go_what_no_living_worker_declares(start):
    old = start(OLD)
    stop(old)
    declaring.store_declared("default")
    Worker.objects.all().delete()
    with running_worker(poll=600) as loop:
        since = database_time("default") - HOUR
        Worker.objects.filter(pk=loop.id).update(beating_since=since)
        loop.upkeep["versions"].due = 0
        loop.bell.ring()
        wait_for(lambda: not active_schedules(), "they are orphaned")
        row = Manifest.objects.get(pk=Worker.objects.get().manifest_id)
        assert row.is_applied


def test_look_is_one_statement_and_none_is_sent_before_a_minute():
    declaring.store_declared("default")
    with statements_of_workers() as executed, running_worker(poll=600) as loop:
        chore = loop.upkeep["versions"]
        executed.clear()
        chore.due = 0
        loop.bell.ring()
        wait_for(lambda: chore.due, "it has looked")
        assert executed.count("loop look_at_manifests") == 1
        assert executed.count("loop decided_entries") == 0
        assert chore.interval == 60


def test_version_that_is_gone_for_good_is_forgotten(start):
    old, new = start(OLD), start(NEW)
    stop(old)
    look(new)
    pass_time(2 * HOUR)
    start(NEW)
    assert Manifest.objects.count() == 1
    names = ManifestEntry.objects.values_list("name", flat=True)
    assert "versions.only_old" not in set(names)
    assert HOUR.total_seconds() == manifests.REMEMBERED


def test_start_of_a_version_that_lives_compares_nothing_but_mends_what_went(start):
    start(OLD)
    later = database_time("default") + HOUR
    Schedule.objects.filter(name="versions.both").update(next_run_at=later)
    before = in_force()
    start(OLD)
    assert in_force() == before
    Schedule.objects.filter(name="versions.both").update(orphaned=True)
    TaskDefinition.objects.filter(name="versions.only_old").delete()
    Subscription.objects.filter(task="versions.handle").update(
        inactive_at=database_time("default")
    )
    start(OLD)
    assert active_schedules().keys() == {"versions.both", "versions.only_old"}
    assert "versions.only_old" in active_tasks()
    assert active_handlers().keys() == {"versions.handle", "versions.handle_as_before"}
