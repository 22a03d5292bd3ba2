"""`prunejobs` says what it has left, and why."""

from datetime import timedelta

import pytest
from django.core.management import call_command

from pgjobs import enqueue
from pgjobs.features.operating import pruning
from pgjobs.models import Batch, Predecessor
from tests.actors import admit, execute, linked_job
from tests.tasks import noop

pytestmark = pytest.mark.django_db

AGES = {"SUCCESSFUL": 0.0, "FAILED": 0.0, "CANCELLED": 0.0}


def said(capsys, *options: str) -> list[str]:
    call_command("prunejobs", "--older", "0s", *options)
    return capsys.readouterr().out.splitlines()


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


def test_what_is_not_old_enough_is_not_counted(capsys):
    enqueue(noop.using(unique_key="k", unique_for=timedelta(hours=1))).succeed()
    call_command("prunejobs", "--older", "1h")
    assert capsys.readouterr().out == "Deleted 0 jobs.\n"


def test_jobs_behind_many_that_are_kept_are_counted_too(monkeypatch):
    monkeypatch.setattr(pruning, "BATCH", 2)
    for number in range(5):
        job = enqueue(noop.using(unique_key=f"{number}", unique_for=timedelta(hours=1)))
        job.succeed()
    assert pruning.count_kept(execute, AGES) == {"it holds its unique key": 5}


# What others still need. (A worker closes links as soon as it sees an end.)


def counted() -> dict[str, int]:
    return pruning.count_kept(execute, AGES)


def test_job_that_another_waits_for_is_named():
    first = enqueue(noop)
    first.succeed()
    linked_job(after=first)
    assert counted() == {"a job still waits for it": 1}
    admit()
    assert counted() == {}
    Predecessor.objects.update(is_open=True)
    assert counted() == {"a job still waits for it": 1}


def test_member_without_which_a_batch_would_end_otherwise_is_named():
    batch = Batch.objects.create()
    first, last = linked_job(batch=batch), linked_job(batch=batch)
    first.fail()
    admit()
    assert counted() == {"without it its batch would end otherwise": 1}
    last.fail()
    admit()
    assert counted() == {}


def test_job_that_a_retry_would_revive_is_named():
    first = enqueue(noop)
    second = linked_job(after=first)
    admit()
    first.fail()
    admit()
    second.refresh_from_db()
    assert second.status == "CANCELLED"
    (reason,) = counted()
    assert reason.startswith("a retry of the job because of which it was cancelled")
