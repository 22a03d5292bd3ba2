"""`prunejobs` says what it has left, and why."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from pgjobs import chain, enqueue, group
from pgjobs.models import Delivery, Event, Job, Predecessor, Prerequisite, Schedule
from pgjobs.queue import kept
from tests.actors import admit, execute
from tests.operators import make_job
from tests.tasks import noop

pytestmark = pytest.mark.django_db

AGES = {"SUCCESSFUL": 0.0, "FAILED": 0.0, "CANCELLED": 0.0}


def said(capsys, *options: str) -> list[str]:
    call_command("prunejobs", "--older", "0s", *options)
    return capsys.readouterr().out.splitlines()


def test_last_run_of_a_schedule_is_named(capsys):
    jobs = [make_job("SUCCESSFUL") for _ in range(3)]
    for job in jobs[:2]:
        Schedule.objects.create(
            name=f"{job.pk}", task="tests.noop", every=timedelta(hours=1), last_job=job
        )
    assert said(capsys) == [
        "Deleted 1 job.",
        "Skipped 2 jobs: the last run of a schedule.",
    ]


def test_job_that_holds_its_unique_key_is_named(capsys):
    enqueue(noop.using(unique_key="k", unique_for=timedelta(hours=1))).succeed()
    assert said(capsys) == [
        "Deleted 0 jobs.",
        "Skipped 1 job: it holds its unique key.",
    ]


def test_job_whose_end_no_worker_has_seen_is_named(capsys):
    enqueue(noop.using(lock="door")).succeed()
    text = "Skipped 1 job: a worker has still to see that it has ended."
    assert said(capsys) == ["Deleted 0 jobs.", text]
    admit()
    assert said(capsys) == ["Deleted 1 job."]


def test_success_that_others_may_still_ask_for_is_named(capsys):
    make_job("SUCCESSFUL", dependencies={"needs": [], "provides": []})
    Prerequisite.objects.create(
        job_id=Job.objects.get().pk,
        key="k",
        finished_at=timezone.now(),
        needed_until=timezone.now() + timedelta(hours=1),
    )
    text = "Skipped 1 job: what depends on it would run it again."
    assert said(capsys) == ["Deleted 0 jobs.", text]


def test_event_whose_delivery_has_failed_is_named(capsys):
    event = Event.objects.create(name="e", payload={}, handlers=1)
    Delivery.objects.create(
        event=event, job=make_job("FAILED"), task="tests.noop", origin="published"
    )
    Event.objects.update(published_at=timezone.now() - timedelta(hours=1))
    options = ("--status", "cancelled")
    assert said(capsys, *options) == ["Deleted 0 jobs."]
    execute("UPDATE pgjobs_job SET finished_at = clock_timestamp() + interval '1 h'")
    assert said(capsys) == [
        "Deleted 0 jobs.",
        "Skipped 1 event: jobs that deliver it have failed or not ended.",
    ]


def test_what_is_not_old_enough_is_not_counted(capsys):
    enqueue(noop.using(unique_key="k", unique_for=timedelta(hours=1))).succeed()
    call_command("prunejobs", "--older", "1h")
    assert capsys.readouterr().out == "Deleted 0 jobs.\n"


def test_jobs_behind_many_that_are_kept_are_counted_too(monkeypatch):
    monkeypatch.setattr(kept, "BATCH", 2)
    for number in range(5):
        job = enqueue(noop.using(unique_key=f"{number}", unique_for=timedelta(hours=1)))
        job.succeed()
    assert kept.count_kept(execute, AGES) == {"it holds its unique key": 5}


# What others still need. (A worker closes links as soon as it sees an end.)


def counted() -> dict[str, int]:
    return kept.count_kept(execute, AGES)


def test_job_that_another_waits_for_is_named():
    first = enqueue(noop)
    first.succeed()
    enqueue(noop.using(after=[first]))
    assert counted() == {"a job still waits for it": 1}
    admit()
    assert counted() == {}
    Predecessor.objects.update(is_open=True)
    assert counted() == {"a job still waits for it": 1}


def test_member_without_which_a_batch_would_end_otherwise_is_named():
    enqueue(group([noop.bind(), noop.bind()]))
    first, last = Job.objects.order_by("pk")
    first.fail()
    admit()
    assert counted() == {"without it its batch would end otherwise": 1}
    last.fail()
    admit()
    assert counted() == {}


def test_job_that_a_retry_would_revive_is_named():
    enqueue(chain(noop.bind(), noop.bind()))
    first, second = Job.objects.order_by("pk")
    admit()
    first.fail()
    admit()
    second.refresh_from_db()
    assert second.status == "CANCELLED"
    (reason,) = counted()
    assert reason.startswith("a retry of the job because of which it was cancelled")
