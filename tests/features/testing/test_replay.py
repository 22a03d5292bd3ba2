"""run_jobs(replay=True): tasks that waited change nothing outside of their steps."""

from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.core import mail
from django.db import DatabaseError, connection, connections, transaction

from pgjobs import enqueue
from pgjobs.models import Job
from pgjobs.testing import run_jobs
from tests import tasks
from tests.features.durable import bodies
from tests.features.durable.bodies import enqueued
from tests.support.declared import store_definitions

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def write(name="outside"):
    Group.objects.create(name=name)


def sleeping_then(act):
    """Return a body that sleeps and then acts, behind its last wait."""

    def body(job):
        job.sleep("nap", DAY)
        act()

    return body


def replayed(body):
    job = enqueued(body)
    run_jobs(until=2 * DAY, replay=True)
    return job


def refused(body, match):
    with pytest.raises(AssertionError, match=match):
        replayed(body)


def test_what_steps_do_is_done_once_and_allowed():
    def body(job):
        job.log("begins")
        job.progress(1, 2)
        job.step("write", write)
        job.step("mail", mail.send_mail, "hello", "", None, ["a@b.example"])
        job.step("enqueue", enqueue, tasks.noop, atomic=True)
        job.sleep("nap", DAY)
        with transaction.atomic():
            assert Group.objects.get().name == "outside"
        return "done"

    job = replayed(body)
    job.refresh_from_db()
    assert (job.status, job.return_value) == ("SUCCESSFUL", "done")
    assert (Group.objects.count(), len(mail.outbox)) == (1, 1)
    assert Job.objects.filter(task="tests.noop").count() == 1
    write("the test's own transaction is writable again")


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_write_before_or_behind_the_last_wait_is_named(is_behind):
    def body(job):
        if not is_behind:
            Group.objects.get_or_create(name="outside")
            Group.objects.filter(name="outside").update(name="outside")
        job.sleep("nap", DAY)
        if is_behind:
            write()

    verb = 'INSERT INTO "auth_group"' if is_behind else 'UPDATE "auth_group"'
    refused(body, rf"(?s)plain.*'default'.*{verb}.*Put it into a step")


def test_an_enqueue_outside_of_a_step_is_named():
    refused(sleeping_then(lambda: enqueue(tasks.noop)), "pgjobs_job")


def test_a_refusal_that_the_task_swallows_is_remembered():
    def swallow():
        try:
            with transaction.atomic():
                write()
        except DatabaseError:
            pass

    refused(sleeping_then(swallow), "INSERT INTO")


def test_a_write_on_commit_counts():
    refused(sleeping_then(lambda: transaction.on_commit(write)), "INSERT INTO")


def raw_cursor():
    with connection.connection.cursor() as cursor:
        cursor.execute("DELETE FROM auth_group")


def copy():
    text = "COPY auth_group (name) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(text) as copying:
        copying.write_row(("outside",))


def function():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pgjobs_enqueue('tests.noop')")


@pytest.mark.parametrize(
    ("act", "named"),
    [
        (raw_cursor, "DELETE FROM auth_group"),
        (copy, "COPY auth_group"),
        (function, "SELECT pgjobs_enqueue"),
    ],
)
def test_the_server_refuses_what_goes_around_the_models(act, named):
    store_definitions()
    refused(sleeping_then(act), rf"(?s)refused a statement.*{named}")


def test_a_locking_read_counts_and_the_message_says_why():
    def lock():
        with transaction.atomic():
            list(Group.objects.select_for_update())

    refused(sleeping_then(lock), r"(?s)FOR UPDATE.*locking read counts")


def test_a_mail_counts():
    def send():
        mail.send_mail("a bill", "", None, ["a@b.example"])

    refused(sleeping_then(send), "sends the mail 'a bill'")
    assert len(mail.outbox) == 1  # the one of the run itself


def test_a_step_that_the_task_did_not_come_to_is_named():
    names = iter("abc")

    def body(job):
        job.sleep("nap", DAY)
        job.step(next(names), lambda: None)

    refused(body, "calls 'b', which it had not done")


def test_an_error_of_the_replay_alone_is_shown():
    def body(job):
        group = job.step("make", lambda: Group.objects.create(name="x").pk)
        Group.objects.get(pk=group)
        job.sleep("nap", DAY)
        job.step("delete", lambda: Group.objects.all().delete()[0])

    refused(body, "raises DoesNotExist")


def test_a_task_that_does_not_wait_may_write():
    replayed(lambda job: write())
    assert Group.objects.get().name == "outside"


def test_a_job_that_waits_across_two_runs_is_replayed():
    def body(job):
        job.wait_for("approval", bool)
        write()

    job = enqueued(body)
    run_jobs(replay=True)
    job.answer("approval", True)
    with pytest.raises(AssertionError, match="INSERT INTO"):
        run_jobs(replay=True)


@pytest.mark.django_db(transaction=True)
def test_without_a_transaction_of_the_test_the_guard_opens_its_own():
    refused(sleeping_then(write), "INSERT INTO")
    assert Group.objects.count() == 1


def test_a_coroutine_is_replayed(monkeypatch):
    async def body(job):
        await job.asleep("nap", DAY)
        await sync_to_async(write)()

    monkeypatch.setattr(bodies, "body", body, raising=False)
    bodies.coroutine.enqueue()
    with pytest.raises(AssertionError, match="INSERT INTO"):
        run_jobs(until=2 * DAY, replay=True)


@pytest.mark.django_db(transaction=True)
def test_each_database_that_the_test_may_use_is_guarded(monkeypatch):
    settings = {**connections.settings["default"]}
    monkeypatch.setitem(connections.settings, "again", settings)
    connections["again"].connect()  # as a test does that names it in `databases`
    try:
        act = sleeping_then(lambda: Group.objects.using("again").create(name="there"))
        refused(act, "statement on 'again'")
    finally:
        connections["again"].close()
        del connections["again"]
