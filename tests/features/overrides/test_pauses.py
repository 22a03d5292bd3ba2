"""A paused task or key: its jobs wait from the beginning, and others go on."""

from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.db import transaction
from django.utils import timezone

from pgjobs import enqueue, enqueue_many
from pgjobs.features.overrides import chore, queue
from pgjobs.features.overrides.chore import HoldPaused
from pgjobs.features.overrides.queue import Wish, set_override
from pgjobs.models import AuditEntry, Job, Override
from pgjobs.reports.reasons import reasons
from pgjobs.sql import statement
from pgjobs.worker.upkeep.admission import Admitting
from tests import harness, tasks
from tests.actors import (
    WAITING_SESSIONS,
    Hand,
    admit,
    execute,
    in_thread,
    session,
    statuses,
)
from tests.operators import insert
from tests.processes import running_worker, shared_queue, wait_for, wait_for_status
from tests.settings import TEST_DATABASE

pytestmark = shared_queue

PAUSED = Wish(paused=True)
PAUSE = {
    **{"kind": "task", "key": "tests.noop", "paused": True, "note": ""},
    **dict.fromkeys(("max_running", "rate_number", "rate_seconds", "until")),
}


def pause(kind: str = "task", key: str = "tests.noop", wish: Wish = PAUSED) -> bool:
    return set_override("default", kind, key, wish, "ada", "page")


def lift(kind: str = "task", key: str = "tests.noop") -> bool:
    return pause(kind, key, Wish())


def look(held: HoldPaused | None = None) -> HoldPaused:
    """Do all that the chore has to do now."""
    held = held or HoldPaused(Admitting())
    connection = cast(Any, SimpleNamespace(execute=execute))
    for _ in range(1_000):
        held.run(connection)
        if held.due > monotonic():
            return held
    raise AssertionError("it does not come to an end")


def know(held: HoldPaused) -> None:
    """Look until nothing older is open, also in databases of other tests."""

    def is_known() -> bool:
        held.hear("")
        look(held)
        return Override.objects.get().is_held

    wait_for(is_known, "the pause is known", timeout=360)


def claimed() -> list[str]:
    return sorted(job.task for job in Hand().claim(100))


def test_ready_jobs_of_a_paused_task_wait_and_others_are_claimed():
    enqueue_many([tasks.noop.bind() for _ in range(3)])
    enqueue(tasks.echo, 1)
    assert pause()
    held = look()
    assert sorted(statuses()) == ["READY"] + 3 * ["WAITING"]
    assert set(Job.objects.waiting().values_list("waiting_for", flat=True)) == {"limit"}
    assert claimed() == ["tests.echo"]
    know(held)


def test_new_jobs_wait_from_their_insertion_however_they_are_inserted():
    pause()
    job = enqueue(tasks.noop)
    assert job.status == "WAITING"
    insert()
    enqueue_many([tasks.noop.bind(), tasks.echo.bind(1)])
    assert sorted(statuses()) == ["READY"] + 3 * ["WAITING"]
    assert claimed() == ["tests.echo"]


def test_job_that_becomes_ready_later_waits_too():
    scheduled = enqueue(tasks.noop.using(run_after=timezone.timedelta(hours=1)))
    failed = enqueue(tasks.noop)
    failed.fail()
    pause()
    scheduled.run_now()
    failed.retry()
    assert set(statuses()) == {"WAITING"}
    assert claimed() == []


def test_jobs_go_when_the_pause_is_lifted():
    enqueue(tasks.noop)
    pause()
    look()
    enqueue(tasks.noop)
    assert lift()
    look()
    Hand()
    assert set(statuses()) == {"READY"}
    assert not Override.objects.exists()


def test_pause_of_a_key_holds_the_jobs_with_that_key_alone():
    for kind, option in (
        ("lock", {"lock": "door"}),
        ("limit", {"max_running": 2, "limit_key": "door"}),
        ("rate", {"rate": "100/minute", "rate_key": "door"}),
    ):
        Job.objects.all().delete()
        held = tasks.noop.using(**option)
        held.enqueue()
        admit()
        pause(kind, "door")
        look()
        admit()
        held.enqueue()
        tasks.echo.enqueue(1)
        admit()
        assert claimed() == ["tests.echo"], kind
        assert set(Job.objects.waiting().values_list("line", flat=True)) == {
            f"paused {kind} door"
        }
        lift(kind, "door")
        look()
        admit()
        assert "tests.noop" in claimed(), kind


def test_paused_jobs_take_no_room_of_their_limit_and_rate():
    one_at_a_time = {"max_running": 1, "limit_key": "mail"}
    tasks.noop.using(**one_at_a_time).enqueue()
    pause()
    tasks.echo.using(**one_at_a_time).enqueue(1)
    admit()
    assert claimed() == ["tests.echo"]
    assert statuses() == ["WAITING", "RUNNING"]


def test_ordered_lock_keeps_its_order_while_its_first_job_is_paused():
    pause()
    tasks.noop.using(lock="door").enqueue()
    tasks.echo.using(lock="door").enqueue(1)
    admit()
    admit()
    assert claimed() == []
    lift()
    look()
    admit()
    assert claimed() == ["tests.noop"]


def test_job_inserted_before_the_pause_and_committed_after_it_is_held():
    with session() as other:
        other.begin()
        other.execute("INSERT INTO pgjobs_job (task) VALUES ('tests.noop')")
        pause()
        held = look()
        assert not Override.objects.get().is_held
        other.commit()
    know(held)
    assert set(statuses()) == {"WAITING"}


def test_job_that_begins_while_the_pause_commits_is_held():
    with session() as pausing, session() as other:
        pausing.begin()
        pausing.execute(statement("set_override"), PAUSE)
        other.begin()
        other.execute("INSERT INTO pgjobs_job (task) VALUES ('tests.noop')")
        pausing.commit()
        held = look()
        assert not Override.objects.get().is_held
        other.commit()
    know(held)
    assert set(statuses()) == {"WAITING"}


def test_insert_that_looks_before_the_pause_and_writes_after_it_is_held():
    slow = """
    INSERT INTO pgjobs_job (task)
    SELECT 'tests.noop' FROM (SELECT pg_advisory_xact_lock(7) OFFSET 0) AS slow
    """
    with session() as lock, session() as other:
        lock.execute("SELECT pg_advisory_lock(7)")
        other.begin()
        with in_thread(other.execute, slow) as inserting:
            wait_for(lambda: execute(WAITING_SESSIONS)[0][0], "the INSERT has begun")
            pause()
            held = look()
            lock.execute("SELECT pg_advisory_unlock(7)")
            inserting.result(timeout=60)
        assert not Override.objects.get().is_held
        other.commit()
    know(held)
    assert set(statuses()) == {"WAITING"}


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_job_of_a_transaction_that_cannot_see_the_pause_is_held(level):
    """Its snapshot is older, and has no number by which workers could wait for it."""
    ready = enqueue(tasks.noop)
    scheduled = tasks.noop.using(run_after=timezone.now() + timezone.timedelta(days=1))
    retried = scheduled.enqueue()
    Hand()
    with session() as other:
        other.execute(f"BEGIN ISOLATION LEVEL {level}")
        other.execute("SELECT FROM pgjobs_job")
        pause()
        know(HoldPaused(Admitting()))
        other.execute("INSERT INTO pgjobs_job (task) VALUES ('tests.noop')")
        other.execute(
            "UPDATE pgjobs_job SET status = 'READY', run_after = NULL WHERE id = %s",
            [retried.pk],
        )
        other.execute("COMMIT")
    admit()
    assert claimed() == []
    lines = Job.objects.values_list("line", flat=True)
    assert set(lines) == {"paused task tests.noop"}
    lift()
    look()
    admit()
    assert len(claimed()) == 3
    assert ready.pk


def test_job_of_a_role_that_may_not_see_overrides_is_held_too():
    pause()
    look()
    with harness.role("blind"):
        execute(f"GRANT INSERT (task) ON pgjobs_job TO blind_{TEST_DATABASE}")
        execute(f"GRANT USAGE ON SEQUENCE pgjobs_turn TO blind_{TEST_DATABASE}")
        execute(f"SET ROLE blind_{TEST_DATABASE}")
        execute("INSERT INTO pgjobs_job (task) VALUES ('tests.noop'), ('tests.echo')")
        execute("RESET ROLE")
    look()
    Hand()
    admit()
    assert claimed() == ["tests.echo"]


def test_jobs_are_held_in_parts(monkeypatch):
    monkeypatch.setattr(chore, "AT_ONCE", 10)
    for priority in (5, 0, -5):
        bound = tasks.noop.using(priority=priority)
        enqueue_many([bound.bind() for _ in range(15)])
        tasks.echo.using(priority=priority).enqueue(1)
    pause()
    held = HoldPaused(Admitting())
    held.run(cast(Any, SimpleNamespace(execute=execute)))
    assert Job.objects.waiting().count() <= 10
    look(held)
    assert Job.objects.waiting().count() == 45
    assert claimed() == 3 * ["tests.echo"]
    lift()
    look()
    assert "WAITING" not in statuses()


def test_row_that_is_locked_keeps_no_other_from_being_held():
    one, _ = enqueue_many([tasks.noop.bind(), tasks.noop.bind()])
    lock = "SELECT FROM pgjobs_job WHERE id = %(id)s FOR UPDATE"
    with session() as other:
        other.begin()
        other.execute(lock, {"id": one.pk})
        pause()
        held = look()
    assert statuses() == ["READY", "WAITING"]
    assert not Override.objects.get().is_held
    held.hear("")
    look(held)
    assert set(statuses()) == {"WAITING"}


MANY_KEYS = """
INSERT INTO pgjobs_override (kind, key, paused_at, is_held)
SELECT 'lock', 'key ' || number, now(), true FROM generate_series(1, 5000) AS number
"""
THEIR_JOBS = """
INSERT INTO pgjobs_job (task, keys, status, waiting_for, line)
SELECT 'tests.noop', jsonb_build_object('lock', key), 'WAITING', 'limit',
    'paused lock ' || key
FROM pgjobs_override
"""


def test_thousands_of_paused_keys_are_not_compared_with_one_another():
    execute(MANY_KEYS)
    with transaction.atomic():
        execute("SET LOCAL pgjobs.admits = 'on'")
        execute(THEIR_JOBS)
    execute("ANALYZE pgjobs_job, pgjobs_override")
    lift("lock", "key 7")
    with transaction.atomic():
        execute("SET LOCAL statement_timeout = '3s'")  # it takes 0.1 s
        assert execute(statement("let_go"), {"limit": 1_000}) == [(1,)]


def test_page_says_what_is_paused():
    job = enqueue(tasks.noop)
    pause()
    look()
    assert reasons("default", [Job.objects.get(pk=job.pk)])[job.pk].text == (
        "waits because the task tests.noop is paused"
    )


def test_page_shows_no_key_that_is_paused_for_it_is_made_of_arguments():
    pause("lock", "erp-7")
    job = tasks.noop.using(lock="erp-7").enqueue()
    Hand()
    admit()
    text = reasons("default", [Job.objects.get(pk=job.pk)])[job.pk].text
    assert text == "waits because its lock is paused"


# Its time


def test_pause_after_one_whose_time_is_over_begins_anew():
    pause()
    Override.objects.update(paused_at="2020-01-01T00:00Z", until="2020-01-02T00:00Z")
    pause(wish=Wish(paused=True, note="again"))
    assert Override.objects.get().paused_at.year > 2020


def test_pause_ends_with_its_time_and_leaves_an_entry():
    soon = timezone.now() + timezone.timedelta(milliseconds=200)
    pause(wish=Wish(paused=True, until=soon))
    enqueue(tasks.noop)
    wait_for(lambda: timezone.now() > soon, "the time is over")
    assert enqueue(tasks.noop).status == "READY"
    look()
    Hand()
    assert set(statuses()) == {"READY"}
    assert not Override.objects.exists()
    entry = AuditEntry.objects.order_by("-pk")[0]
    assert (entry.actor, entry.act, entry.chosen) == (
        "pgjobs",
        "end",
        "task tests.noop",
    )


def test_acts_are_audited_and_what_changes_nothing_is_not():
    assert pause()
    assert not pause()
    assert lift()
    assert not lift()
    entries = AuditEntry.objects.order_by("pk").values_list("act", "chosen", "number")
    assert list(entries) == [
        ("override", "task tests.noop: paused", 1),
        ("lift", "task tests.noop: lifted", 1),
    ]


def test_start_of_a_worker_leaves_overrides_alone():
    pause()
    before = Override.objects.values().get()
    with running_worker():
        known = Override.objects.exclude(changed_in=0).exists
        wait_for(known, "the pause is known")
    after = Override.objects.values().get()
    own = {each: after[each] for each in ("is_held", "changed_in")}
    assert {**before, **own} == after


def test_workers_hold_and_let_go_by_themselves():
    with running_worker(poll=600):
        pause()
        job = enqueue(tasks.noop)
        other = enqueue(tasks.echo, 1)
        wait_for_status(other, "SUCCESSFUL")
        assert Job.objects.get(pk=job.pk).status == "WAITING"
        lift()
        wait_for_status(job, "SUCCESSFUL")


@pytest.mark.parametrize(
    ("kind", "key", "wish"),
    [
        ("queue", "a", PAUSED),
        ("task", "", PAUSED),
        ("lock", "x" * 501, PAUSED),
        ("lock", "a", Wish(rate="1/minute")),
        ("rate", "a", Wish(max_running=1)),
        ("limit", "a", Wish(max_running=0)),
        ("task", "a", Wish(rate="fast")),
        ("task", "a", Wish(paused=True, until=timezone.now())),
    ],
)
def test_what_cannot_be_stored_is_refused(kind, key, wish):
    with pytest.raises(queue.InvalidTask):
        pause(kind, key, wish)
    assert not Override.objects.exists()
    assert not AuditEntry.objects.exists()
