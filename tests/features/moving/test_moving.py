"""Moving a tenant to another database: nothing is lost, and nothing is doubled."""

from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from itertools import count

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model
from django.db.models.functions import Now

from pgjobs import (
    Fail,
    chain,
    current_job,
    drain,
    enqueue,
    group,
    publish,
    result,
    schedule,
    subscribe,
    task,
)
from pgjobs.features.desk.errors import failures
from pgjobs.features.moving.id_blocks import SIZE, SameBlock, begin_block, block_of
from pgjobs.features.moving.queue import (
    OWN_VALUES,
    CrossingLinks,
    Mover,
    Selection,
    StillRunning,
)
from pgjobs.features.schedules.options import Recurrence
from pgjobs.features.testing.caller import CallerWorker
from pgjobs.models import (
    Answer,
    Attempt,
    AuditEntry,
    AwaitedEvent,
    Batch,
    Delivery,
    ErrorGroup,
    Event,
    Job,
    Move,
    Parcel,
    Predecessor,
    Progress,
    Schedule,
    Step,
    Tick,
    Wait,
)
from pgjobs.reports.status import overview
from tests.actors import admit, execute, overlapping, running_job
from tests.processes import drain as drain_with_worker
from tests.support.declared import store_schedules, store_subscriptions
from tests.tasks import noop, pair

ALIASES = ("default", "eu")
TENANT = {"tenant": 7}
both_committing = pytest.mark.django_db(
    transaction=True, databases=ALIASES, available_apps=["pgjobs", "tests"]
)


def of_tenant(tenant: int, text: str = ""):
    if text == "fail":
        raise Fail("as asked")


def after_event(tenant: int):
    pass


@task(name="tests.waits_for_two", waits_for="tenant.*")
def waits_for_two(tenant: int):
    job = current_job()
    opened = job.wait_for_event("tenant.opened")
    job.wait_for("question", bool)
    closed = job.wait_for_event("tenant.closed", timeout=0)
    return [opened.name, closed and closed.name]


@pytest.fixture
def work(two_databases, transactional_db):
    """A task whose jobs belong to a tenant."""
    begin_block("eu", max(block_of("eu"), 1))
    return task(name="tests.of_tenant", max_attempts=1)(of_tenant)


def mover(selection: Selection | None = None) -> Mover:
    return Mover("default", "eu", selection or Selection(TENANT))


def moved_by_command() -> str:
    """Move by the command; return all that it prints."""
    out, line = StringIO(), ("--from=default", "--to=eu", '--arguments={"tenant": 7}')
    call_command("movejobs", *line, stdout=out, stderr=out)
    return out.getvalue()


def ids(alias: str, **conditions) -> list[int]:
    jobs = Job.objects.using(alias).filter(**conditions)
    return sorted(jobs.values_list("pk", flat=True))


@both_committing
def test_jobs_of_a_tenant_move_and_those_of_others_stay(work):
    moved = [enqueue(work, 7), enqueue(work.using(run_after=timedelta(hours=1)), 7)]
    stays = enqueue(work, 8)
    assert mover().move()["pgjobs_job"] == 2
    assert ids("default") == [stays.pk]
    assert ids("eu") == [job.pk for job in moved]
    statuses = Job.objects.using("eu").order_by("pk").values_list("status", flat=True)
    assert [*statuses] == ["READY", "SCHEDULED"]
    assert drain(database="eu") == 1


@both_committing
def test_second_move_finds_nothing(work):
    enqueue(work, 7)
    mover().move()
    assert mover().move() == {}
    assert Parcel.objects.count() == 0
    assert Move.objects.using("default").count() == 0


@both_committing
def test_two_processes_that_move_the_same_share_one_move(work):
    """Were there two, each could deliver the other's, and leave its own behind."""
    job = enqueue(work, 7)
    _, moved = overlapping(lambda: mover().pack(), lambda: mover().move())
    assert moved == {"pgjobs_job": 1}
    assert (ids("default"), ids("eu")) == ([], [job.pk])
    assert not Move.objects.exists()


@both_committing
def test_move_that_was_cut_off_is_a_problem(work):
    """Its jobs run nowhere, and are in no list."""
    enqueue(work, 7)
    id = mover().pack()
    assert overview("default").problems == []
    Move.objects.update(begun_at=Now() - timedelta(hours=1))
    (problem,) = overview("default").problems
    assert problem == (
        "A move to eu has not ended for 60 minutes, and 1 job waits in it: run "
        "movejobs again."
    )
    mover().deliver(id)
    for alias in ALIASES:
        Move.objects.using(alias).update(begun_at=Now() - timedelta(hours=1))
        assert overview(alias).problems == []


@both_committing
def test_job_keeps_its_history(work):
    job = enqueue(work, 7, "fail")
    drain_with_worker()
    attempt = Attempt.objects.get(job=job)
    job.refresh_from_db()
    mover().move()
    there = Job.objects.using("eu").get(pk=job.pk)
    for field in Job._meta.concrete_fields:
        if field.name not in ("turn", "line"):
            assert getattr(there, field.attname) == getattr(job, field.attname)
    (moved,) = Attempt.objects.using("eu").filter(job=job.pk)
    assert (moved.number, moved.message) == (attempt.number, attempt.message)
    assert Attempt.objects.using("default").count() == 0
    assert there.retry()


@both_committing
def test_group_of_errors_moves_with_its_jobs(work):
    for _ in range(2):
        enqueue(work, 7, "fail")
        drain_with_worker()
        mover().move()
    (group,) = failures("eu")
    assert (group.exception_class, group.number) == ("pgjobs.exceptions.Fail", 2)
    assert ErrorGroup.objects.using("default").exists()  # others may fail so, too


@both_committing
def test_order_of_a_lock_is_kept(work):
    locked = work.using(lock="tenant 7")
    jobs = [enqueue(locked, 7) for _ in range(3)]
    mover().move()
    assert drain(database="eu") == 3
    started = Job.objects.using("eu").order_by("started_at")
    assert list(started.values_list("pk", flat=True)) == [job.pk for job in jobs]


@both_committing
def test_chain_goes_on_where_it_was(work):
    first, second, third = enqueue(chain(work.bind(7), work.bind(7), work.bind(7)))
    drain_with_worker(max_jobs=1)
    first.refresh_from_db()
    assert first.status == "SUCCESSFUL"
    mover().move()
    assert ids("eu", finished_at=None) == [second.pk, third.pk]
    drain(database="eu")
    assert ids("eu", status="SUCCESSFUL") == [first.pk, second.pk, third.pk]


@both_committing
def test_chain_whose_first_job_was_pruned_goes_on(work):
    first, second = enqueue(chain(work.bind(7), work.bind(7)))
    drain_with_worker(max_jobs=1)
    with transaction.atomic():
        Job.objects.filter(pk=first.pk).discard()
    mover().move()
    drain(database="eu")
    assert ids("eu", status="SUCCESSFUL") == [second.pk]


@both_committing
def test_batch_moves_with_its_jobs_and_callback(work):
    parts = [work.bind(7), work.bind(7)]
    batch = enqueue(group(parts, then=work.bind(7), description="both"))
    assert mover().move()["pgjobs_batch"] == 1
    (moved,) = Batch.objects.using("eu")
    assert (moved.pk, moved.description) == (batch.pk, "both")
    assert moved.outcome_of_deleted == ""  # its jobs have left with it
    assert drain(database="eu") == 3
    assert moved.progress().successful == 2
    assert not Batch.objects.using("default").exists()


@both_committing
def test_job_that_has_still_to_get_a_result_stays_with_its_source(work):
    last = pair.using(queue_name="later").bind(result, tenant=7)
    first, second = enqueue(chain(work.bind(8), last))
    drain(queues=["default"])
    with pytest.raises(CrossingLinks) as caught:
        mover().move()
    assert f"job {second.pk} waits for job {first.pk}" in str(caught.value)


@both_committing
def test_jobs_that_are_tied_to_others_are_named_and_stay(work):
    batch = enqueue(group([work.bind(7), work.bind(8)]))
    first, second = enqueue(chain(work.bind(8), work.bind(7)))
    with pytest.raises(CrossingLinks) as caught:
        mover().move()
    assert f"is in batch {batch.pk} with others" in str(caught.value)
    assert f"job {second.pk} waits for job {first.pk}" in str(caught.value)
    assert len(ids("default")) == 4
    assert not Parcel.objects.exists()
    drain()
    batch.jobs.all().delete()
    assert mover().move()["pgjobs_job"] == 1


@both_committing
def test_events_move_with_their_deliveries(work, no_subscriptions):
    handler = task(name="tests.after_event")(after_event)
    subscribe("tests.event")(handler)
    store_subscriptions("default")
    event = publish("tests.event", TENANT)
    stays = publish("tests.event", {"tenant": 8})
    found = mover().move()
    assert (found["pgjobs_event"], found["pgjobs_delivery"]) == (1, 1)
    moved = Event.objects.using("eu").get()
    assert (moved.pk, moved.payload) == (event.pk, TENANT)
    assert Event.objects.using("default").get() == stays
    assert drain(database="eu") == 1
    assert Event.objects.using("eu").with_state().get().state == "DELIVERED"


@both_committing
def test_schedule_moves_with_its_ticks_and_the_one_of_the_code_stays(
    work, no_schedules
):
    schedule = Schedule.objects.create(
        name="of tenant 7",
        task=work.name,
        kwargs=TENANT,
        every=timedelta(hours=1),
        next_run_at="2099-01-01T00:00Z",
    )
    Tick.objects.create(schedule=schedule, time="2026-01-01T00:00Z")
    Schedule.objects.create(
        name="declared", task=work.name, kwargs=TENANT, cron="@daily", declared={}
    )
    assert mover().move()["pgjobs_schedule"] == 1
    moved = Schedule.objects.using("eu").get(name="of tenant 7")
    assert moved.every == timedelta(hours=1)
    assert moved.next_run_at.year == 2099
    assert moved.ticks.count() == 1
    assert list(Schedule.objects.values_list("name", flat=True)) == ["declared"]
    assert not Tick.objects.using("default").exists()


@both_committing
def test_schedule_that_code_declares_for_the_old_database_alone_is_named(
    work, no_schedules
):
    def declare(database: str) -> None:
        work.declarations[Recurrence].clear()
        schedule(cron="@daily", name="each", arguments=TENANT)(work)
        for name, tenant in (("one", 7), ("another tenant's", 8)):
            when = {"cron": "@daily", "name": name, "database": database}
            schedule(arguments={"tenant": tenant}, **when)(work)
        for alias in ALIASES:
            store_schedules(alias)

    declare("default")
    assert moved_by_command() == (
        "Moved nothing.\n"
        "Schedule 'one' goes on firing in 'default': code declares it, and 'eu' does "
        "not have it. Declare it for 'eu'.\n"
    )
    Schedule.objects.pause()
    assert moved_by_command() == "Moved nothing.\n"
    Schedule.objects.resume()
    declare("eu")
    assert moved_by_command() == "Moved nothing.\n"


@both_committing
def test_running_job_is_waited_for(work):
    running, ready = enqueue(work, 7), enqueue(work, 7)
    with CallerWorker("default", "here") as worker:
        assert worker.claim().id == running.pk
    with pytest.raises(StillRunning, match=str(running.pk)):
        mover().move(patience=0)
    assert ids("default") == [running.pk]
    assert ids("eu") == []  # the other one waits for it
    Job.objects.filter(pk=running.pk).succeed()
    mover().move()
    assert ids("eu") == [running.pk, ready.pk]


@both_committing
def test_row_that_the_other_database_refuses_keeps_all_back(work):
    unique = work.using(unique_key="only one")
    job = enqueue(unique, 7)
    other = enqueue(unique.using(database="eu"), 9)
    with pytest.raises(CommandError, match="refuses a row, and has taken none"):
        moved_by_command()
    assert ids("eu") == [other.pk]
    assert Parcel.objects.count() == 1
    other.cancel()
    assert moved_by_command() == "Moved 1 jobs.\n"
    assert ids("eu") == [job.pk, other.pk]


@both_committing
def test_row_to_which_the_source_refers_is_not_laid_to_the_other_database(work):
    job = enqueue(work, 7)
    execute("CREATE TABLE tests_letter (job bigint REFERENCES pgjobs_job (id))")
    try:
        execute(f"INSERT INTO tests_letter VALUES ({job.pk})")
        with pytest.raises(CommandError) as caught:
            moved_by_command()
        assert "'default' does not let a row go" in str(caught.value)
        assert "tests_letter" in str(caught.value)
        assert ids("default") == [job.pk]
    finally:
        execute("DROP TABLE tests_letter")
    assert moved_by_command() == "Moved 1 jobs.\n"


@both_committing
def test_advice_about_links_of_what_has_ended_is_right(work):
    batch = enqueue(group([work.bind(7), work.bind(8)]))
    drain()
    with pytest.raises(CommandError, match="stay together after their end"):
        moved_by_command()
    batch.jobs.exclude(kwargs=TENANT | {"text": ""}).discard()
    assert moved_by_command().startswith("Moved 1 jobs")


@both_committing
def test_move_leaves_an_entry_in_the_audit_trail(work):
    enqueue(work, 7)
    moved_by_command()
    entry = AuditEntry.objects.get()
    assert (entry.act, entry.number, entry.note) == ("move", 1, "to eu")
    assert '"tenant": 7' in entry.chosen
    moved_by_command()
    assert AuditEntry.objects.count() == 1


@both_committing
def test_move_that_waits_for_a_running_job_leaves_an_entry_without_a_number(work):
    enqueue(work, 7)
    running_job(work, 7)
    with pytest.raises(CommandError, match="Jobs still run"):
        call_command(
            "movejobs", "--from=default", "--to=eu", "--queues=default", "--wait=0.001"
        )
    assert AuditEntry.objects.get().number is None


@both_committing
def test_queue_moves_alone(work):
    job = enqueue(work.using(queue_name="seven"), 1)
    enqueue(work, 1)
    assert mover(Selection(queues=("seven",))).move() == {"pgjobs_job": 1}
    assert ids("eu") == [job.pk]


def test_move_without_a_selection_is_refused():
    with pytest.raises(ValueError, match="needs arguments or queues"):
        Selection()
    with pytest.raises(ValueError, match="two databases"):
        Mover("eu", "eu", Selection(TENANT))


# Blocks of ids


@both_committing
def test_databases_with_the_same_block_of_ids_are_refused(work, monkeypatch):
    monkeypatch.setattr("pgjobs.features.moving.id_blocks.block_of", lambda database: 3)
    job = enqueue(work, 7)
    with pytest.raises(SameBlock, match="shardids --database eu --block 4"):
        mover().move()
    assert ids("default") == [job.pk]


@both_committing
def test_command_shows_and_sets_the_block():
    out, block = StringIO(), block_of("eu") + 1
    call_command("shardids", database="eu", block=block, stdout=out)
    assert out.getvalue() == f"Block {block}\n"
    assert enqueue(noop.using(database="eu")).pk == block * SIZE + 1
    assert block_of("default") == 0
    with pytest.raises(CommandError, match="would fall back to 0"):
        call_command("shardids", database="eu", block=0)
    with pytest.raises(CommandError, match="of one database"):
        call_command("shardids", database="all", block=1)


# The end of the process at any point


class Killed(BaseException):
    pass


@contextmanager
def killed_after(number: int):
    """End the process, as far as a test can, after so many statements and commits.

    Its connections are cut, so the server rolls back what was not committed.
    """
    numbers = count(1)

    def step() -> None:
        if next(numbers) == number:
            for alias in ALIASES:
                connections[alias].connection.close()
            raise Killed

    def wrapper(execute, sql, params, many, context):
        step()
        return execute(sql, params, many, context)

    commit = BaseDatabaseWrapper._commit

    def committing(self):
        step()
        commit(self)
        step()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseDatabaseWrapper, "_commit", committing)
        with (
            connections["default"].execute_wrapper(wrapper),
            connections["eu"].execute_wrapper(wrapper),
        ):
            yield


def was_killed(number: int) -> bool:
    try:
        with killed_after(number):
            mover().move()
    except (Killed, OperationalError):  # the latter from rolling back
        return True
    finally:
        for alias in ALIASES:
            connections[alias].close()
    return False


# What tells a row from the others of its table in both databases.
ROWS: dict[type[Model], tuple[str, ...]] = {
    Job: ("id", "task"),
    Attempt: ("job", "number", "message"),
    Step: ("job", "name", "return_value"),
    Wait: ("job", "name"),
    Answer: ("job", "name", "value"),
    Progress: ("job", "message"),
    Predecessor: ("job_id", "predecessor_id", "batch_id"),
    Batch: ("id", "description"),
    Event: ("id", "payload"),
    AwaitedEvent: ("event_id", "name"),
    Delivery: ("job", "event"),
    Schedule: ("id", "name"),
    Tick: ("schedule", "time"),
}


def rows_in(alias: str) -> dict[str, list[str]]:
    """Return what a database has of each table that a move takes along."""
    return {
        model._meta.db_table: sorted(
            map(str, model.objects.using(alias).values_list(*fields))
        )
        for model, fields in ROWS.items()
    }


def add_rows(work) -> None:
    """Add rows of all tables that a move takes along."""
    first, *_ = [enqueue(work, 7), *enqueue(chain(work.bind(7), work.bind(7)))]
    enqueue(group([work.bind(7)], then=work.bind(7), description="one"))
    event = publish("tests.event", TENANT)
    awaited = {"name": event.name, "cluster": 1, "transaction": 1}
    AwaitedEvent.objects.create(event_id=event.pk, **awaited)
    made = {"job": first, "life": 1, "finished_at": first.enqueued_at}
    Attempt.objects.create(number=1, worker_name="a", message="no", **made)
    Step.objects.create(name="pay", attempt=1, return_value=42, **made)
    waits = {"job": first, "life": 1, "name": "approval"}
    Wait.objects.create(kind="answer", deadline=first.enqueued_at, **waits)
    Answer.objects.create(value=True, **waits)
    Progress.objects.create(job=first, message="paid", updated_at=first.enqueued_at)
    nightly = Schedule.objects.create(
        name="nightly", task=work.name, kwargs=TENANT, every=timedelta(hours=1)
    )
    Tick.objects.create(schedule=nightly, time="2026-01-01T00:00Z")
    admit()  # which makes the links


def delete_rows() -> None:
    for model in (Job, Event, Batch, Schedule):
        model.objects.using("eu").all().delete()


@pytest.mark.slow
@both_committing
def test_move_goes_on_after_a_kill_at_any_point(work, no_subscriptions, no_schedules):
    subscribe("tests.event")(task(name="tests.after_event")(after_event))
    for alias in ALIASES:
        store_subscriptions(alias)
    delete_rows()  # a schedule of the example
    nothing = rows_in("eu")
    kills = 0
    for number in count(1):
        add_rows(work)
        before = rows_in("default")
        assert before.keys() == OWN_VALUES.keys() - {"pgjobs_errorgroup"}
        assert all(before.values()), "a table has no row"
        killed = was_killed(number)
        here, there = rows_in("default"), rows_in("eu")
        assert here in (nothing, before)  # a move packs all or nothing
        assert there in (nothing, before)
        assert nothing in (here, there), "a row is in two databases"
        if here == there:
            packed = Counter(Parcel.objects.values_list("table", flat=True))
            assert packed == {name: len(rows) for name, rows in before.items()}
        mover().move()
        assert rows_in("default") == nothing
        assert rows_in("eu") == before
        assert not Parcel.objects.exists()
        assert drain(database="eu") == len(before["pgjobs_job"]) == 6
        delete_rows()
        if not killed:
            break
        kills += 1
    assert kills > 25


@both_committing
def test_job_that_waits_keeps_the_events_that_it_has_taken_or_may_take(work):
    call_command("synctasks", database="default", verbosity=0)
    call_command("synctasks", database="eu", verbosity=0)
    job = enqueue(waits_for_two, 7)
    publish("tenant.opened")
    publish("tenant.closed", {"tenant": 7})
    execute("UPDATE pgjobs_event SET published_at = published_at + interval '1 second'")
    drain()
    job.refresh_from_db()
    assert (job.status, job.reason) == ("WAITING", "It waits: question.")
    assert mover().move()["pgjobs_job"] == 1
    there = Job.objects.using("eu").get(pk=job.pk)
    assert there.answer("question", True)
    drain(database="eu")
    there.refresh_from_db()
    assert (there.status, there.reason) == ("SUCCESSFUL", "")
    assert there.return_value == ["tenant.opened", "tenant.closed"]
    assert [event.name for event in Event.objects.all()] == ["tenant.opened"]


@both_committing
def test_wait_leaves_the_number_of_its_worker_which_another_one_may_have_there(work):
    call_command("synctasks", database="default", verbosity=0)
    enqueue(waits_for_two, 7)
    drain()
    assert Wait.objects.get().worker_id is not None
    assert mover().move()["pgjobs_job"] == 1
    assert Wait.objects.using("eu").get().worker_id is None
