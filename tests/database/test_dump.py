"""Rows that are dumped, without the tables, and loaded again."""

from datetime import datetime

import pytest
from django.apps import apps
from django.core.management import call_command
from django.utils import timezone

from pgjobs import chain, current_job, enqueue, enqueue_many, group, publish, task
from pgjobs.features.definitions import declaring
from pgjobs.features.desk.acknowledging import acknowledge
from pgjobs.models import (
    AuditEntry,
    Batch,
    Delivery,
    Job,
    Predecessor,
    Prerequisite,
    Schedule,
    Step,
    Subscription,
    Tick,
)
from tests.actors import Hand, admit, execute, hours, session, statuses
from tests.processes import drain
from tests.settings import SCHEMA
from tests.support.dependent_tasks import refresh_client, send_client
from tests.tasks import fail_with, noop

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_schedules")]


def rows_of(model) -> list[dict]:
    """Return the rows; of a time only whether there is one: JSON keeps less of it."""
    return [
        {name: isinstance(value, datetime) or value for name, value in row.items()}
        for row in model.objects.order_by("pk").values()
    ]


def test_dump_of_data_alone_goes_back_in(tmp_path):
    first, *_ = chain(
        noop.bind(), group([noop.bind(), noop.bind()]), noop.using(lock="door").bind()
    ).enqueue()
    hand = Hand()
    claimed = hand.claim_one()
    Step.objects.create(
        job=first, life=1, name="half", attempt=1, finished_at=first.enqueued_at
    )
    hand.set_back(claimed, "RETRY", "Once more.")
    Job.objects.filter(pk=noop.enqueue().pk).cancel()
    admit()
    before = {model: rows_of(model) for model in (Job, Batch, Predecessor, Step)}
    assert all(before.values())
    dump = str(tmp_path / "dump.json")
    call_command("dumpdata", "pgjobs", output=dump)
    execute("TRUNCATE pgjobs_job CASCADE")
    assert not Batch.objects.exists()
    call_command("loaddata", dump, verbosity=0)
    for model, rows in before.items():
        assert rows_of(model) == rows
    hand = Hand("another")
    while claimed := hand.claim():
        assert hand.succeed(claimed[0])
    assert statuses() == ["SUCCESSFUL"] * 4 + ["CANCELLED"]


# What is only there while jobs are moved, or while a worker lives.
PASSING = {"Move", "Parcel", "Worker", "CodeVersion"}


@task
def do_much():
    current_job().progress(1, 2, "half")
    current_job().step("half", int)


@task(waits_for="order.sent")
def do_wait():
    current_job().wait_for("question", bool)


def leave_a_row_in_every_table(path: str) -> None:
    failed = enqueue(fail_with, "no")
    enqueue(do_much)
    enqueue(noop.using(rate="1/hour"))
    send_client.enqueue(path, 1)
    enqueue(group([noop.bind()]))
    event = publish("nothing.heard")
    waiting = enqueue(do_wait)
    drain()
    declaring.store_declared("default")
    waiting.answer("another question", True)
    publish("order.sent")
    Delivery.objects.create(event=event, job=failed, task="a")
    Subscription.objects.create(event="order.paid", task="a")
    chain(noop.using(run_after=hours(1)).bind(), noop.bind()).enqueue()
    admit()
    noop.using(lock="door").enqueue().delete()  # a note says that its key is free
    call_command("tasks", "pause", "tests.add", verbosity=0)
    acknowledge("default", "no_worker", "", "ada", timezone.now() + hours(1))
    AuditEntry.objects.create(actor="ada", via="page", act="cancel", model="job")
    schedule = Schedule.objects.create(
        name="tick", task="tests.noop", every=hours(1), paused=True
    )
    Tick.objects.create(schedule=schedule, job=failed, time=timezone.now())


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("no_subscriptions")
def test_dump_of_a_queue_that_has_worked_goes_back_in(tmp_path):
    leave_a_row_in_every_table(str(tmp_path / "notes"))
    models = [
        model
        for model in apps.get_app_config("pgjobs").get_models()
        if model.__name__ not in PASSING
    ]
    before = {model: rows_of(model) for model in models}
    assert [model for model, rows in before.items() if not rows] == []
    dump = str(tmp_path / "dump.json")
    call_command("dumpdata", "pgjobs", output=dump)
    tables = ", ".join(model._meta.db_table for model in models)
    execute(f"TRUNCATE {tables} CASCADE")
    call_command("loaddata", dump, verbosity=0)
    for model, rows in before.items():
        assert rows_of(model) == rows
    drain()


# Of all kinds that a trigger looks at.
KINDS = [
    noop.bind(),
    noop.using(lock="door").bind(),
    noop.using(limit_key="mail", max_running=1, rate="1/hour").bind(),
    noop.using(unique_key="one", on_success="tests.noop").bind(),
    noop.using(run_after=hours(1), queue_name="mail", expires=hours(2)).bind(),
    refresh_client.bind("path", 1),
]


@pytest.mark.django_db(transaction=True)
def test_dump_goes_back_in_without_a_search_path():
    """`psql` runs what pg_dump writes without one."""
    jobs = enqueue_many(KINDS)
    with session() as restoring:
        restoring.execute("SET search_path = ''")
        for each in (
            f"CREATE TEMP TABLE dump AS SELECT * FROM {SCHEMA}.pgjobs_job",
            f"DELETE FROM {SCHEMA}.pgjobs_job",
            f"INSERT INTO {SCHEMA}.pgjobs_job SELECT * FROM pg_temp.dump",
        ):
            restoring.execute(each)
        assert Job.objects.count() == len(jobs)
        for each in (
            f"UPDATE {SCHEMA}.pgjobs_job SET status = 'SUCCESSFUL', waiting_for = NULL,"
            " finished_at = now()",
            f"DELETE FROM {SCHEMA}.pgjobs_job",
        ):
            restoring.execute(each)
    assert not Prerequisite.objects.exists()
