"""Nothing undoes a row: `save()` of an older instance, loaded rows, SQL."""

from io import StringIO

import pytest
from django.core import serializers
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from pgjobs import enqueue
from pgjobs.models import Job
from tests.actors import Hand, execute
from tests.processes import drain, run, shared_queue
from tests.tasks import fail_with, noop

pytestmark = shared_queue
ABSURD = 2**63 - 1
OWN = ("id", "batch_id")  # what an UPDATE cannot name


def last_token() -> int:
    return execute("SELECT last_value FROM pgjobs_lease_token")[0][0]


def columns(job: Job) -> dict:
    """Return all columns of an instance, as `save()` would write them."""
    names = [field.attname for field in Job._meta.concrete_fields]
    return {
        name: getattr(job, name) for name in names if name not in ("id", "batch_id")
    }


def write_all(job: Job) -> None:
    """Write what `save()` would, past it."""
    with transaction.atomic():
        super(Job, job).save()


def read(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


@pytest.mark.parametrize("changes", [{}, {"force_update": True}, {"using": "default"}])
def test_save_of_a_stored_job_is_refused_and_names_the_acts(changes):
    job = enqueue(noop)
    with pytest.raises(ValueError, match=r"retry\(\), cancel\(\).*update_fields="):
        job.save(**changes)
    with pytest.raises(ValueError, match="update_fields"):
        read(job).save(**changes)


def test_save_of_named_columns_goes_on():
    job = enqueue(noop)
    job.priority = 5
    job.save(update_fields=["priority"])
    job.queue_name = "other"
    job.save(update_fields=["queue_name"], using="default")
    Job.objects.update_or_create(pk=job.pk, defaults={"priority": 6})
    job = read(job)
    assert (job.priority, job.queue_name) == (6, "other")


def test_new_jobs_are_saved():
    job = Job(task="tests.noop", args=[], kwargs={})
    job.save()
    job.pk = None
    job.save()
    Job(task="tests.noop", args=[], kwargs={}).save(force_insert=True)
    assert Job.objects.count() == 3


def test_fixture_is_loaded_twice(tmp_path):
    run(noop)
    run(fail_with, "no")
    enqueue(noop)
    path = tmp_path / "jobs.json"
    path.write_text(serializers.serialize("json", Job.objects.all()))
    call_command("loaddata", path, stdout=StringIO())
    Job.objects.all().delete()
    call_command("loaddata", path, stdout=StringIO())
    assert Job.objects.count() == 3


@pytest.mark.parametrize("act", ["succeed", "fail", "cancel", "run"])
def test_older_values_do_not_make_a_job_run_again(act):
    older = enqueue(noop)
    drain() if act == "run" else getattr(read(older), act)()
    before = columns(read(older))
    with pytest.raises(IntegrityError, match="cannot go back"):
        write_all(older)
    with pytest.raises(IntegrityError, match="cannot go back"):
        Job.objects.bulk_update([older], [*before.keys() - {"turn"}])
    assert columns(read(older)) == before


def test_older_values_take_no_running_job_from_its_worker():
    older = enqueue(noop)
    hand = Hand()
    claimed = hand.claim_one()
    with pytest.raises(IntegrityError, match=f"Job {older.pk} cannot go back"):
        write_all(older)
    assert hand.succeed(claimed)


@pytest.mark.parametrize(
    "change",
    [
        "lease_token = 0, failures = 0",
        "attempts = 0, failures = 0, crashes = 0",
        "life = 1",
        "status = 'READY', finished_at = NULL",
        "status = 'SUCCESSFUL', failures = 0",
        "status = 'SCHEDULED', finished_at = NULL, run_after = now()",
        "status = 'WAITING', waiting_for = 'lock', finished_at = NULL",
        "status = 'READY', finished_at = NULL, attempts = 0, failures = 0",
    ],
)
@pytest.mark.parametrize("keys", ["NULL", '\'{"lock": "door"}\''])
def test_sql_undoes_no_finished_job(change, keys):
    job = run(fail_with, "no")
    job.retry()
    drain()
    execute(f"UPDATE pgjobs_job SET keys = {keys}")
    with pytest.raises(IntegrityError, match="cannot go back"), transaction.atomic():
        execute(f"UPDATE pgjobs_job SET {change}")


def test_sql_may_begin_a_new_life():
    run(noop)
    execute(
        "UPDATE pgjobs_job SET status = 'READY', finished_at = NULL, attempts = 0,"
        " lease_token = 0, life = life + 1"
    )
    drain()
    assert Job.objects.get().life == 2


def test_attempts_of_a_running_job_stay_when_it_goes_back_to_the_queue():
    enqueue(noop)
    assert Hand().claim_one()
    with pytest.raises(IntegrityError, match="cannot go back"), transaction.atomic():
        Job.objects.update(status="READY", worker_id=None, attempts=0)
    Job.objects.update(status="READY", worker_id=None)


def test_failures_and_crashes_may_begin_anew():
    run(fail_with.using(max_attempts=2), "no")
    Job.objects.update(failures=0, crashes=0)
    assert Job.objects.get().attempts == 1


def test_cancelled_job_is_revived_in_its_life():
    first = enqueue(fail_with, "no")
    second = enqueue(noop.using(after=first))
    drain()
    assert read(second).status == "CANCELLED"
    first.retry()
    assert (read(second).status, read(second).life) == ("WAITING", 1)


def token_of_another_server(how: str, token: int) -> Job:
    """Return a READY job with a token that our sequence has not given."""
    job = enqueue(noop)
    if how == "moved":  # as features/moving/queue.py delivers it
        execute(
            "WITH gone AS (DELETE FROM pgjobs_job RETURNING *) INSERT INTO pgjobs_job"
            f" (id, task, args, kwargs, lease_token) OVERRIDING SYSTEM VALUE"
            f" SELECT id, task, args, kwargs, {token} FROM gone"
        )
    elif how == "loaded":
        job.lease_token = token
        text = serializers.serialize("json", [job])
        Job.objects.all().delete()
        for each in serializers.deserialize("json", text):
            each.save()
    else:  # the subscriber of a replication fires no trigger
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE pgjobs_job SET lease_token = {token}")
    return job


@pytest.mark.parametrize("how", ["moved", "loaded", "replicated"])
@pytest.mark.parametrize("is_locked", [False, True])
def test_sequence_moves_on_behind_a_token_of_another_server(how, is_locked):
    foreign = last_token() + 1_000
    job = token_of_another_server(how, foreign)
    if is_locked:
        Job.objects.update(keys={"lock": "door", "is_ordered": True})
    drain()
    job = read(job)
    assert job.status == "SUCCESSFUL"
    assert foreign < job.lease_token <= last_token()
    assert run(noop).lease_token > job.lease_token


def test_rescue_moves_the_sequence_on_as_well():
    enqueue(noop)
    hand = Hand()
    assert hand.claim_one()
    foreign = last_token() + 1_000
    Job.objects.update(lease_token=foreign)
    hand.vanish()
    Hand("other").rescue()
    job = Job.objects.get()
    assert job.status == "READY"
    assert foreign < job.lease_token <= last_token()


def test_absurd_token_stops_no_claim():
    job = token_of_another_server("replicated", ABSURD)
    drain()
    assert read(job).status == "SUCCESSFUL"
    assert run(noop).status == "SUCCESSFUL"
    assert last_token() < 2**62
