"""What needs the row of a success keeps it, in whichever order both are committed."""

from types import SimpleNamespace

import pytest
from django.db import transaction
from django.utils import timezone

from pgjobs import enqueue, enqueue_many, result
from pgjobs.exceptions import InvalidTask
from pgjobs.features.keeping.chore import prune_successes
from pgjobs.features.keeping.successes import MARK, Client
from pgjobs.models import Job
from pgjobs.models.progress import Progress
from pgjobs.queue import recording
from pgjobs.queue.claiming import ClaimedJob, Success
from pgjobs.queue.slices import OLDEST
from pgjobs.queue.upkeep import ALL_DUE
from tests.actors import (
    WAITING_SESSIONS,
    Hand,
    Session,
    admit,
    execute,
    hours,
    in_thread,
    session,
)
from tests.processes import drain, shared_queue, wait_for
from tests.support import dependent_tasks
from tests.tasks import echo, noop

pytestmark = shared_queue

briefly = noop.using(keep="failed")
# In the order in which a worker does them: it locks the rows, looks, and deletes.
LOCK_WHAT_IT_LOOKS_AT = "LOCK TABLE pgjobs_schedule IN ACCESS EXCLUSIVE MODE"


def is_there(job: Job) -> bool:
    return Job.objects.filter(pk=job.pk).exists()


def record(hand: Hand, *jobs: ClaimedJob, run=execute) -> set[int]:
    """Record successes as a worker does that may delete them; return the tokens."""
    successes = [Success(job.id, job.lease_token, None) for job in jobs]
    client = Client(SimpleNamespace(execute=run), successes)
    recorded = recording.record_successes(client.execute, hand.id, "hand", successes)
    return {each.lease_token for each in recorded}


def claimed(number: int = 1, task=briefly) -> tuple[Hand, list[ClaimedJob]]:
    enqueue_many([task.bind()] * number)
    hand = Hand()
    return hand, hand.claim(number)


def name_as_predecessor(job: ClaimedJob, run=execute) -> None:
    """Insert a job after this one by SQL, which takes no lock."""
    run(
        "INSERT INTO pgjobs_job (task, keys) VALUES ('tests.noop',"
        " jsonb_build_object('after', jsonb_build_array(%(id)s::bigint)))",
        {"id": job.id},
    )


def test_hand_deletes_what_nothing_needs():
    hand, jobs = claimed(3)
    assert record(hand, *jobs) == {job.lease_token for job in jobs}
    assert not Job.objects.exists()


def test_only_the_needed_ones_of_many_are_kept():
    hand, jobs = claimed(5)
    name_as_predecessor(jobs[2])
    assert len(record(hand, *jobs)) == 5
    kept = Job.objects.get(status="SUCCESSFUL")
    assert (kept.pk, kept.keep, kept.worker_name) == (jobs[2].id, "failed", "hand")


@pytest.mark.parametrize("column", ["awaited = true", "batch_id = 1"])
def test_column_that_says_so_keeps_the_row(column):
    hand, (job,) = claimed()
    execute(f"UPDATE pgjobs_job SET {column}")
    assert record(hand, job) == {job.lease_token}
    assert Job.objects.get().status == "SUCCESSFUL"


def test_last_run_of_a_schedule_is_kept():
    hand, (job,) = claimed()
    execute(
        "INSERT INTO pgjobs_schedule (name, task, every, last_job_id)"
        " VALUES ('often', 'tests.noop', '1 hour', %(id)s)",
        {"id": job.id},
    )
    record(hand, job)
    assert Job.objects.get().status == "SUCCESSFUL"


def test_job_of_a_period_is_kept():
    hand, jobs = claimed(task=briefly.using(unique_key="a", unique_for=hours(1)))
    record(hand, *jobs)
    assert Job.objects.get().status == "SUCCESSFUL"
    assert enqueue(briefly.using(unique_key="a", unique_for=hours(1))).pk == jobs[0].id


def test_job_on_which_others_depend_is_kept(tmp_path):
    refresh = dependent_tasks.refresh_client.using(keep="failed")
    enqueue(refresh, str(tmp_path / "ran"), 5)
    drain()
    job = Job.objects.get()
    assert (job.status, job.keep) == ("SUCCESSFUL", "failed")
    assert prune() == 0
    execute("UPDATE pgjobs_prerequisite SET needed_until = now() - interval '1 s'")
    assert prune() == 1


def test_job_that_delivers_an_event_is_kept():
    hand, (job,) = claimed()
    execute("INSERT INTO pgjobs_event (name, payload) VALUES ('a.b', '{}')")
    execute(
        "INSERT INTO pgjobs_delivery (job_id, event_id, task)"
        " SELECT %(id)s, id, 'tests.noop' FROM pgjobs_event",
        {"id": job.id},
    )
    record(hand, job)
    assert Job.objects.get().status == "SUCCESSFUL"
    assert prune() == 0


def test_job_with_a_key_that_ends_with_it_is_deleted():
    hand, jobs = claimed(task=briefly.using(unique_key="a"))
    record(hand, *jobs)
    assert not Job.objects.exists()


def test_child_of_a_job_that_may_wait_for_it_is_kept_until_that_has_ended():
    hand = Hand()
    enqueue(noop)
    parent = hand.claim_one()
    child, other = enqueue_many([briefly.bind(), briefly.bind()])
    Job.objects.filter(pk=child.pk).update(meta={"parent_id": parent.id})
    record(hand, *hand.claim(2))
    assert (is_there(child), is_there(other)) == (True, False)
    assert prune() == 0
    hand.succeed(parent)
    assert prune() == 1


@pytest.mark.parametrize("on_delete", ["NO ACTION", "CASCADE", "SET NULL"])
def test_row_to_which_a_table_of_the_project_refers_is_kept(on_delete):
    execute(
        "CREATE TABLE tests_paper (job_id bigint REFERENCES pgjobs_job"
        f" ON DELETE {on_delete})"
    )
    try:
        hand, jobs = claimed(3)
        execute("INSERT INTO tests_paper VALUES (%(id)s)", {"id": jobs[1].id})
        record(hand, *jobs)
        assert Job.objects.get().pk == jobs[1].id
        assert execute("SELECT job_id FROM tests_paper") == [(jobs[1].id,)]
        prune()
        assert Job.objects.exists()
        execute("DELETE FROM tests_paper")
        prune()
        assert not Job.objects.exists()
    finally:
        execute("DROP TABLE tests_paper")


def test_what_belongs_to_a_deleted_job_goes_with_it():
    hand, (job, other) = claimed(2)
    for each in (job, other):
        Progress.objects.create(job_id=each.id, log="", updated_at=timezone.now())
    name_as_predecessor(other)
    record(hand, job, other)
    assert list(Progress.objects.values_list("job_id", flat=True)) == [other.id]


# Both orders


def test_row_that_another_transaction_holds_is_stored():
    hand, (job,) = claimed()
    with session() as other:
        other.begin()
        other.execute("SELECT FROM pgjobs_job FOR KEY SHARE")
        assert record(hand, job) == {job.lease_token}
        other.commit()
    assert Job.objects.get().status == "SUCCESSFUL"


@pytest.mark.parametrize("commits", ["before", "while it looks", "after"])
def test_successor_that_sql_inserts_without_a_lock(commits):
    """The worker is held between its lock and its look."""
    hand, (job,) = claimed()
    with session() as holder, session() as other, session() as worker:
        holder.begin()
        holder.execute(LOCK_WHAT_IT_LOOKS_AT)
        other.begin()
        name_as_predecessor(job, other.execute)
        if commits == "before":
            other.commit()
        with in_thread(record, hand, job, run=worker.execute) as recording:
            wait_for(lambda: waiting_sessions() == 1, "the worker is held")
            if commits == "while it looks":
                other.commit()
            holder.commit()
            assert recording.result() == {job.lease_token}
        if commits == "after":
            other.commit()
    # Only what took no lock, and was not committed when the worker looked, is lost.
    assert Job.objects.filter(pk=job.id).exists() is (commits != "after")


def test_enqueue_waits_for_a_worker_that_deletes_and_is_refused():
    hand, (job,) = claimed()
    row = Job.objects.get()
    with session() as holder, session() as worker:
        holder.begin()
        holder.execute(LOCK_WHAT_IT_LOOKS_AT)
        with in_thread(record, hand, job, run=worker.execute) as recording:
            wait_for(lambda: waiting_sessions() == 1, "the worker is held")
            with in_thread(enqueue, noop.using(after=[row])) as enqueueing:
                wait_for(lambda: waiting_sessions() == 2, "both wait")
                holder.commit()
                assert recording.result() == {job.lease_token}
                with pytest.raises(InvalidTask, match=f"job {job.id} is gone.*'all'"):
                    enqueueing.result()
    assert not Job.objects.exists()


def waiting_sessions() -> int:
    return execute(WAITING_SESSIONS)[0][0]


def test_worker_stores_what_an_open_transaction_has_named():
    hand, (job,) = claimed()
    with session() as worker, transaction.atomic():
        enqueue(noop.using(after=[Job.objects.get()]))
        assert record(hand, job, run=worker.execute) == {job.lease_token}
    assert Job.objects.get(pk=job.id).status == "SUCCESSFUL"
    drain()
    assert Job.objects.filter(status="SUCCESSFUL").count() == 2


def test_nothing_is_deleted_in_a_transaction_that_sees_no_new_rows():
    hand, (job,) = claimed()
    with session() as worker:
        worker.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        assert record(hand, job, run=worker.execute) == {job.lease_token}
        worker.commit()
    assert Job.objects.get().status == "SUCCESSFUL"


def test_worker_that_lost_its_job_changes_nothing():
    hand, (job,) = claimed()
    execute("UPDATE pgjobs_job SET lease_token = nextval('pgjobs_lease_token')")
    assert record(hand, job) == set()
    assert Job.objects.get().status == "RUNNING"


def test_lost_job_beside_others_stays():
    hand, jobs = claimed(3)
    execute(
        "UPDATE pgjobs_job SET lease_token = nextval('pgjobs_lease_token')"
        " WHERE id = %(id)s",
        {"id": jobs[1].id},
    )
    assert record(hand, *jobs) == {jobs[0].lease_token, jobs[2].lease_token}
    assert Job.objects.get().status == "RUNNING"


# Pruning


def prune() -> int:
    return prune_successes(execute, OLDEST, ALL_DUE).number


def test_stored_success_is_pruned_once_nothing_needs_it():
    hand, (job,) = claimed()
    name_as_predecessor(job)
    record(hand, job)
    assert prune() == 0, "an admission has not seen the link"
    drain()
    assert prune() == 1
    assert not Job.objects.filter(pk=job.id).exists()


def mark_as_awaited(session: Session, id: int) -> None:
    session.execute(MARK, {"id": id})


def name_as_last_run(session: Session, id: int) -> None:
    session.execute(
        "INSERT INTO pgjobs_schedule (name, task, every, last_job_id)"
        " VALUES ('often', 'tests.noop', '1 hour', %(id)s)",
        {"id": id},
    )


def deliver_an_event(session: Session, id: int) -> None:
    session.execute(
        "WITH event AS ("
        " INSERT INTO pgjobs_event (name, payload) VALUES ('a.b', '{}') RETURNING id)"
        " INSERT INTO pgjobs_delivery (job_id, event_id, task)"
        " SELECT %(id)s, id, 'tests.noop' FROM event",
        {"id": id},
    )


def come_from_a_running_parent(session: Session, id: int) -> None:
    parent = enqueue(noop)
    session.execute(
        "UPDATE pgjobs_job"
        " SET meta = jsonb_build_object('parent_id', %(parent)s::bigint)"
        " WHERE id = %(id)s",
        {"id": id, "parent": parent.pk},
    )


def name_for_its_result(session: Session, id: int) -> None:
    echo.using(after=Job.objects.get(pk=id)).enqueue(result)
    admit()


@pytest.mark.parametrize(
    "need",
    [
        mark_as_awaited,
        name_as_last_run,
        deliver_an_event,
        come_from_a_running_parent,
        name_for_its_result,
    ],
)
def test_stored_success_that_something_needs_is_not_pruned(need):
    """Something else had needed both when they ended."""
    hand, jobs = claimed(2)
    for job in jobs:
        name_as_predecessor(job)
    record(hand, *jobs)
    Job.objects.filter(status__in=["READY", "WAITING"]).delete()
    needed = jobs[0]
    with session() as process:
        need(process, needed.id)
        assert prune() == 1
        assert set(Job.objects.filter(status="SUCCESSFUL").values_list("pk")) == {
            (needed.id,)
        }


def test_other_successes_are_not_pruned():
    for task in (noop, noop.using(keep="all")):
        enqueue(task)
    drain()
    assert prune() == 0


def test_what_an_operator_calls_successful_is_kept():
    job = enqueue(briefly)
    assert job.succeed(5)
    assert prune() == 0
    assert is_there(job)


def test_job_with_a_follow_up_is_pruned_with_other_successes():
    enqueue(briefly.using(on_success=noop))
    drain()
    assert prune() == 0


def test_members_of_a_batch_are_pruned_with_other_successes():
    hand, (job,) = claimed()
    execute("UPDATE pgjobs_job SET batch_id = 1")
    record(hand, job)
    assert prune() == 0
