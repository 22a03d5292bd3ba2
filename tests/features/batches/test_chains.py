"""Chains and `after`: a job runs once those before it have ended as it needs."""

import pytest
from asgiref.sync import async_to_sync
from django.db import IntegrityError, transaction

from pgjobs import aenqueue, chain, enqueue, enqueue_many, group
from pgjobs.exceptions import InvalidTask
from pgjobs.models import Job, Note, Predecessor
from pgjobs.queue import admitting
from tests.actors import (
    Hand,
    admit,
    execute,
    fields_of,
    hours,
    run_next,
    session,
    statuses,
    stored_statuses,
)
from tests.processes import shared_queue
from tests.tasks import echo, noop

pytestmark = shared_queue

anyway = noop.using(after_failure="run")


@pytest.fixture(autouse=True)
def worker(db):
    """A worker that serves all queues: without one nothing is admitted."""
    return Hand("idle")


def admitted(job: Job) -> Job:
    """Let a worker look, and return the job as it is then."""
    admit()
    job.refresh_from_db()
    return job


def told_statuses() -> list[str]:
    """Return what all jobs are once a worker has looked at what rows and notes tell.

    It looks at nothing else, as most admissions do.
    """
    admit(sweeps=False)
    return stored_statuses()


# Chains


def test_jobs_of_a_chain_run_one_after_the_other():
    jobs = enqueue(chain(echo.bind(1), echo.bind(2), echo.bind(3)))
    assert [job.status for job in jobs] == ["READY", "WAITING", "WAITING"]
    assert [job.waiting_for for job in jobs] == [None, "predecessor", "predecessor"]
    for job, predecessor in zip(jobs, [None, *jobs], strict=False):
        blocker = predecessor and predecessor.pk
        assert admitted(job).blocked_by_id == blocker
    assert [job.status for job in jobs] == ["READY", "WAITING", "WAITING"]
    assert [job.waiting_for for job in jobs] == [None, "predecessor", "predecessor"]
    hand = Hand()
    assert [run_next(hand=hand) for _ in jobs] == [job.pk for job in jobs]
    assert statuses() == ["SUCCESSFUL"] * 3


def test_job_that_becomes_ready_no_longer_names_its_predecessor():
    _, second = enqueue(chain(noop.bind(), noop.bind()))
    assert admitted(second).blocked_by_id is not None
    run_next()
    admitted(second)
    assert (second.status, second.waiting_for) == ("READY", None)
    assert second.blocked_by_id is None


def test_instance_is_what_the_database_has():
    for job in enqueue(chain(noop.bind(), noop.bind())):
        fields = {each.attname: getattr(job, each.attname) for each in Job._meta.fields}
        stored = fields_of(job)
        del fields["turn"], stored["turn"]
        assert fields == stored


@pytest.mark.parametrize("verdict", ["FAIL", "CANCEL"])
def test_failed_job_cancels_the_rest_of_its_chain_and_says_why(verdict):
    first, second, third = enqueue(chain(*[noop.bind() for _ in range(3)]))
    run_next(verdict)
    for job in (second, third):
        admitted(job)
    assert (second.status, third.status) == ("CANCELLED", "CANCELLED")
    how = "failed" if verdict == "FAIL" else "was cancelled"
    assert second.reason == f"Cancelled: predecessor job {first.pk} {how}."
    assert third.reason == f"Cancelled: predecessor job {second.pk} was cancelled."
    assert second.finished_at is not None
    assert second.blocked_by_id == first.pk


@pytest.mark.parametrize("is_admitted", [False, True])
@pytest.mark.parametrize("act", ["cancel", "fail", "discard", "delete"])
def test_operators_act_on_a_job_cancels_what_comes_after_it(act, is_admitted):
    first, _ = enqueue(chain(noop.bind(), noop.bind()))
    if is_admitted:
        admit()
    getattr(Job.objects.filter(pk=first.pk), act)()
    told_statuses()
    last = Job.objects.latest("pk")
    assert last.status == "CANCELLED"
    if act in ("discard", "delete"):
        assert last.reason == f"Cancelled: predecessor job {first.pk} is gone."


def test_job_that_is_tried_again_holds_the_next_one_back():
    enqueue(chain(noop.bind(), noop.bind()))
    hand = Hand()
    assert hand.set_back(hand.claim_one(), "RETRY") == "READY"
    assert statuses() == ["READY", "WAITING"]
    run_next(hand=hand)
    assert statuses() == ["SUCCESSFUL", "READY"]


def test_job_that_is_marked_as_successful_admits_the_next_one():
    first, _ = enqueue(chain(noop.bind(), noop.bind()))
    first.succeed()
    assert statuses() == ["SUCCESSFUL", "READY"]


def test_chain_in_a_chain_is_a_longer_chain():
    inner = chain(echo.bind(2), echo.bind(3))
    jobs = enqueue(chain(echo.bind(1), inner, echo.bind(4)))
    admit()
    assert [job.kwargs["value"] for job in jobs] == [1, 2, 3, 4]
    links = Predecessor.objects.order_by("job_id")
    assert list(links.values_list("predecessor_id", "job_id")) == [
        (jobs[0].pk, jobs[1].pk),
        (jobs[1].pk, jobs[2].pk),
        (jobs[2].pk, jobs[3].pk),
    ]


def test_chain_is_built_once_and_enqueued_often():
    built = chain(noop.bind(), noop.bind())
    first, second = built.enqueue(), built.enqueue()
    assert len({job.pk for job in first + second}) == 4
    assert statuses() == ["READY", "WAITING"] * 2


def test_chain_that_is_rolled_back_leaves_nothing():
    with transaction.atomic():
        enqueue(chain(noop.bind(), noop.bind()))
        admit()
        transaction.set_rollback(True)
    assert not Job.objects.exists()
    assert not Predecessor.objects.exists()


def test_chain_is_enqueued_from_async_code():
    jobs = async_to_sync(aenqueue)(chain(noop.bind(), noop.bind()))
    assert [job.status for job in jobs] == ["READY", "WAITING"]
    assert async_to_sync(aenqueue)(group([noop.bind()])).pk


def test_each_job_of_a_chain_keeps_its_own_options():
    first, second = enqueue(
        chain(noop.bind(), noop.using(priority=7, queue_name="slow").bind())
    )
    assert (second.priority, second.queue_name) == (7, "slow")
    assert (first.priority, first.queue_name) == (0, "default")


# Any graph


def test_job_waits_for_all_that_come_before_it():
    one, other = enqueue_many([noop.bind(), noop.bind()])
    last = enqueue(noop.using(after=[one, other]))
    admitted(last)
    assert (last.status, last.blocked_by_id) == ("WAITING", one.pk)
    one.succeed()
    assert statuses() == ["SUCCESSFUL", "READY", "WAITING"]
    other.succeed()
    assert statuses() == ["SUCCESSFUL", "SUCCESSFUL", "READY"]


def test_diamond_runs_its_last_job_once_both_sides_have_ended():
    top = enqueue(noop)
    sides = enqueue_many([noop.using(after=top).bind() for _ in range(2)])
    bottom = enqueue(noop.using(after=sides))
    assert statuses() == ["READY", "WAITING", "WAITING", "WAITING"]
    top.succeed()
    assert statuses() == ["SUCCESSFUL", "READY", "READY", "WAITING"]
    Job.objects.filter(pk__in=[side.pk for side in sides]).succeed()
    assert admitted(bottom).status == "READY"


def test_job_after_one_that_has_succeeded_can_run_at_once():
    done = enqueue(noop)
    run_next()
    enqueue(noop.using(after=[done]))
    assert told_statuses() == ["SUCCESSFUL", "READY"]


@pytest.mark.parametrize("verdict", ["FAIL", "CANCEL"])
def test_job_after_one_that_has_failed_is_cancelled(verdict):
    failed = enqueue(noop)
    run_next(verdict)
    later = enqueue(noop.using(after=[failed]))
    assert (later.status, later.waiting_for) == ("WAITING", "predecessor")
    admitted(later)
    assert (later.status, later.blocked_by_id) == ("CANCELLED", failed.pk)
    assert f"predecessor job {failed.pk}" in later.reason


@pytest.mark.parametrize("verdict", ["SUCCESS", "FAIL", "CANCEL"])
def test_job_that_runs_after_failures_waits_for_the_end_alone(verdict):
    enqueue(chain(noop.bind(), anyway.bind()))
    run_next(verdict)
    assert statuses()[1] == "READY"


def test_task_can_say_that_its_jobs_run_after_failures():
    first = enqueue(noop)
    enqueue(anyway.using(after=first))
    first.fail()
    assert statuses() == ["FAILED", "READY"]


def test_scheduled_job_is_cancelled_when_its_predecessor_fails():
    first = enqueue(noop)
    later = enqueue(noop.using(after=first, run_after=hours(1)))
    assert later.status == "SCHEDULED"
    first.fail()
    assert statuses() == ["FAILED", "CANCELLED"]


def test_scheduled_job_that_comes_due_waits_for_its_predecessor():
    first = enqueue(noop)
    later = enqueue(noop.using(after=first, run_after=hours(1)))
    assert later.run_now()
    assert (later.status, later.waiting_for) == ("WAITING", "predecessor")
    run_next()
    assert statuses() == ["SUCCESSFUL", "READY"]


def test_job_with_other_obstacles_meets_them_afterwards():
    locked = noop.using(lock="door")
    holder, first = enqueue(locked), enqueue(noop)
    last = enqueue(locked.using(after=first))
    assert last.waiting_for == "predecessor"
    assert admitted(last).waiting_for == "predecessor"
    first.succeed()
    admitted(last)
    assert (last.status, last.waiting_for) == ("WAITING", "lock")
    assert last.blocked_by_id == holder.pk
    holder.succeed()
    assert admitted(last).status == "READY"


def test_job_of_a_lock_that_waits_for_a_predecessor_keeps_its_position():
    locked = noop.using(lock="door")
    first = enqueue(noop)
    enqueue(locked.using(after=first))
    later = enqueue(locked)
    assert later.waiting_for == "lock"
    first.succeed()
    assert statuses() == ["SUCCESSFUL", "READY", "WAITING"]


def test_jobs_of_a_chain_may_share_a_lock():
    locked = noop.using(lock="door")
    enqueue(chain(locked.bind(), locked.bind(), locked.bind()))
    hand = Hand()
    for _ in range(3):
        run_next(hand=hand)
    assert statuses() == ["SUCCESSFUL"] * 3


def test_row_inserted_by_sql_waits_too():
    first = enqueue(noop)
    execute(
        "INSERT INTO pgjobs_job (task, keys) VALUES ('tests.noop', %(keys)s)",
        {"keys": f'{{"after": [{first.pk}]}}'},
    )
    assert statuses() == ["READY", "WAITING"]
    first.succeed()
    assert statuses() == ["SUCCESSFUL", "READY"]


def test_links_go_with_their_job():
    first, second = enqueue(chain(noop.bind(), noop.bind()))
    admit()
    assert Predecessor.objects.exists()
    second.cancel()
    Job.objects.filter(pk=second.pk).discard()
    assert not Predecessor.objects.exists()
    first.succeed()
    admit()
    assert not Note.objects.exists()
    assert not Job.objects.exclude(line=None).exists()


# Unique keys


def test_chain_goes_on_after_the_job_that_holds_a_unique_key():
    unique = noop.using(unique_key="one")
    holder = enqueue(unique)
    first, second = enqueue(chain(unique.bind(), noop.bind()))
    assert first == holder
    admitted(second)
    assert (second.status, second.blocked_by_id) == ("WAITING", holder.pk)
    holder.succeed()
    assert statuses() == ["SUCCESSFUL", "READY"]


def test_job_of_a_chain_that_is_skipped_is_not_waited_for():
    unique = noop.using(unique_key="one", on_conflict="skip")
    enqueue(unique)
    first, second = enqueue(chain(unique.bind(), noop.bind()))
    assert first is None
    assert second.status == "READY"


def test_job_of_a_chain_that_is_replaced_keeps_its_place_in_it():
    debounced = echo.using(unique_key="one", on_conflict="replace")
    first, second, _ = enqueue(chain(noop.bind(), debounced.bind(1), noop.bind()))
    replaced = enqueue(debounced.using(lock="door"), 2)
    assert (replaced.pk, replaced.status) == (second.pk, "WAITING")
    assert replaced.waiting_for == "predecessor"
    first.succeed()
    assert statuses() == ["SUCCESSFUL", "READY", "WAITING"]
    second.succeed()
    assert statuses() == ["SUCCESSFUL", "SUCCESSFUL", "READY"]


def test_job_with_a_lock_keeps_its_place_when_another_job_begins_to_wait_for_it():
    locked = noop.using(lock="door")
    holder = enqueue(locked)
    enqueue(locked)
    enqueue(noop.using(after=holder))
    assert statuses() == ["READY", "WAITING", "WAITING"]
    holder.succeed()
    assert statuses() == ["SUCCESSFUL", "READY", "READY"]


# Retrying


def test_retry_of_a_failed_job_brings_the_rest_of_its_chain_back():
    first, *rest = enqueue(chain(*[noop.bind() for _ in range(3)]))
    run_next("FAIL")
    assert statuses() == ["FAILED", "CANCELLED", "CANCELLED"]
    assert first.retry()
    assert statuses() == ["READY", "WAITING", "WAITING"]
    hand = Hand()
    ids = [run_next(hand=hand) for _ in range(3)]
    assert ids == [first.pk, *[job.pk for job in rest]]


def test_retry_of_a_job_that_had_failed_before_brings_back_what_came_after_it():
    first = enqueue(noop)
    first.fail()
    later = enqueue(noop.using(after=first))
    assert admitted(later).status == "CANCELLED"
    assert first.retry()
    assert statuses() == ["READY", "WAITING"]


def test_revived_job_stays_in_its_life_and_forgets_why_it_was_cancelled():
    first, second = enqueue(chain(noop.bind(), noop.using(expires=hours(1)).bind()))
    run_next("FAIL")
    assert admitted(second).status == "CANCELLED"
    first.retry()
    admitted(second)
    assert (second.life, second.reason, second.finished_at) == (1, "", None)
    assert second.expires_at is None


def test_revived_chain_that_fails_again_is_cancelled_again():
    first, _ = enqueue(chain(noop.bind(), noop.bind()))
    run_next("FAIL")
    assert statuses() == ["FAILED", "CANCELLED"]
    first.retry()
    assert statuses() == ["READY", "WAITING"]
    run_next("FAIL")
    assert statuses() == ["FAILED", "CANCELLED"]


def test_job_that_was_cancelled_for_another_reason_stays_so():
    first, second, _ = enqueue(chain(*[noop.bind() for _ in range(3)]))
    second.cancel()
    first.cancel()
    assert statuses() == ["CANCELLED", "CANCELLED", "CANCELLED"]
    first.retry()
    assert statuses() == ["READY", "CANCELLED", "CANCELLED"]


def test_job_that_two_have_failed_waits_until_both_are_retried():
    one, other = enqueue_many([noop.bind(), noop.bind()])
    last = enqueue(noop.using(after=[one, other]))
    one.fail()
    other.fail()
    assert admitted(last).status == "CANCELLED"
    assert one.retry()
    admitted(last)
    assert (last.status, last.blocked_by_id) == ("CANCELLED", other.pk)
    assert other.retry()
    assert statuses() == ["READY", "READY", "WAITING"]
    one.succeed()
    assert statuses() == ["SUCCESSFUL", "READY", "WAITING"]
    other.succeed()
    assert statuses() == ["SUCCESSFUL", "SUCCESSFUL", "READY"]


def test_cancelled_job_that_is_retried_alone_runs():
    _, second, _ = enqueue(chain(*[noop.bind() for _ in range(3)]))
    run_next("FAIL")
    assert statuses() == ["FAILED", "CANCELLED", "CANCELLED"]
    assert second.retry()
    assert statuses() == ["FAILED", "READY", "WAITING"]


def test_jobs_that_are_retried_together_run_one_after_the_other_again():
    enqueue(chain(*[noop.bind() for _ in range(3)]))
    hand = Hand()
    for _ in range(3):
        run_next(hand=hand)
    assert Job.objects.all().retry() == (3, 0)
    assert statuses() == ["READY", "WAITING", "WAITING"]


def test_ends_of_a_chain_that_are_retried_take_the_middle_along():
    first, _, third = enqueue(chain(*[noop.bind() for _ in range(3)]))
    run_next("FAIL")
    assert statuses() == ["FAILED", "CANCELLED", "CANCELLED"]
    Job.objects.filter(pk__in=[first.pk, third.pk]).retry()
    assert statuses() == ["READY", "WAITING", "WAITING"]


def test_job_whose_unique_key_is_taken_meanwhile_is_not_revived():
    unique = noop.using(unique_key="one")
    first, second = enqueue(chain(noop.bind(), unique.bind()))
    run_next("FAIL")
    assert statuses() == ["FAILED", "CANCELLED"]
    newer = enqueue(unique)
    assert newer != second
    assert first.retry()
    assert statuses() == ["READY", "CANCELLED", "READY"]


# Bad input


@pytest.mark.parametrize(
    ("after", "fault"),
    [
        ([5], "after must be jobs and batches that are enqueued, got 5 at position 0"),
        ([noop], "got <Task tests.noop> at position 0"),
        ([None], "got None at position 0"),
        ([Job(task="x")], "after: the job at position 0 was not saved"),
        ("12", "after must be a list of jobs and batches, got '12'"),
        (12, "after must be a list of jobs and batches, got 12"),
        ([chain(noop.bind())], "Jobs that are not: use chain"),
    ],
)
def test_what_cannot_come_before_is_named(after, fault):
    with pytest.raises(InvalidTask, match=fault.replace("(", r"\(")):
        noop.using(after=after)


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ([], "A chain of nothing"),
        ([noop], "got <Task tests.noop> at position 0"),
        ([noop.bind(), 5], "got 5 at position 1"),
    ],
)
def test_what_cannot_stand_in_a_chain_is_named(parts, fault):
    with pytest.raises(InvalidTask, match=fault):
        chain(*parts)


def test_chain_takes_no_arguments():
    with pytest.raises(InvalidTask, match="takes no arguments"):
        enqueue(chain(noop.bind()), 5)


def test_unknown_word_for_what_happens_after_failures_is_refused():
    with pytest.raises(InvalidTask, match="'cancel' or 'run', got 'ignore'"):
        noop.using(after_failure="ignore")


@pytest.mark.parametrize("is_due", [True, False])
def test_job_after_one_that_is_gone_does_not_run(is_due):
    gone = enqueue(noop)
    id = gone.pk
    Job.objects.filter(pk=id).discard()
    gone.pk = id
    run_after = None if is_due else hours(1)
    later = enqueue(noop.using(after=[gone], run_after=run_after))
    assert told_statuses() == ["CANCELLED"]
    later.refresh_from_db()
    assert later.reason == f"Cancelled: predecessor job {id} is gone."


def test_circle_is_refused():
    """Only SQL could ask for one. A job cannot wait for a later job."""
    first = enqueue(noop)
    insert = """
        INSERT INTO pgjobs_job (id, task, keys)
        VALUES (%(id)s, 'tests.noop', jsonb_build_object('after', ARRAY[%(after)s]))
    """
    for id in (first.pk + 100, first.pk - 1):
        after = id if id > first.pk else first.pk
        with pytest.raises(IntegrityError, match="jobs that were enqueued before"):
            execute(insert, {"id": id, "after": after})


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ('{"after": 12}', "must be arrays of ids"),
        ('{"after": [1.5]}', "must be arrays of ids"),
        ('{"after": ["12"]}', "must be arrays of ids"),
        ('{"after_batches": 12}', "must be arrays of ids"),
        ('{"after": [], "needs": "luck"}', "needs must be success, end or failure"),
    ],
)
def test_links_that_make_no_sense_are_refused_in_sql(keys, fault):
    with pytest.raises(IntegrityError, match=fault):
        execute(
            "INSERT INTO pgjobs_job (task, keys) VALUES ('tests.noop', %(keys)s)",
            {"keys": keys},
        )


def test_job_after_a_batch_that_does_not_exist_does_not_run():
    """Its writer may have no right to read batches."""
    execute(
        "INSERT INTO pgjobs_job (task, keys)"
        """ VALUES ('tests.noop', '{"after_batches": [12]}')"""
    )
    assert told_statuses() == ["CANCELLED"]
    assert Job.objects.get().reason == "Cancelled: batch 12 is gone."


# Transactions that race. None waits for another.

AFTER = """
    INSERT INTO pgjobs_job (task, keys)
    VALUES ('tests.noop', jsonb_build_object('after', ARRAY[%(id)s::bigint]))
"""
HOLD = "SELECT FROM pgjobs_job WHERE id = %(id)s FOR UPDATE"


@pytest.mark.parametrize("verdict", ["SUCCESS", "FAIL"])
@pytest.mark.parametrize("first", ["end", "arrival"])
@pytest.mark.parametrize("commits", ["end", "arrival"])
@pytest.mark.parametrize("looks_between", [False, True])
def test_job_that_comes_while_its_predecessor_ends_is_admitted(
    first, commits, looks_between, verdict
):
    """This holds in each order of writes and commits, whenever a worker looks."""
    predecessor = enqueue(noop)
    with session() as worker, session() as app:
        hand = Hand(execute=worker.execute)
        job = hand.claim_one()

        def end():
            worker.begin()
            done = hand.succeed(job) if verdict == "SUCCESS" else None
            assert done or hand.set_back(job, verdict)

        def arrive():
            app.begin()
            app.execute(AFTER, {"id": predecessor.pk})

        for write in (end, arrive) if first == "end" else (arrive, end):
            write()
        for each in (worker, app) if commits == "end" else (app, worker):
            each.commit()
            if looks_between:
                told_statuses()
    expected = {"SUCCESS": ["SUCCESSFUL", "READY"], "FAIL": ["FAILED", "CANCELLED"]}
    assert told_statuses() == expected[verdict]
    assert not Note.objects.exists()


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("looks_between", [False, True])
def test_two_predecessors_that_end_at_the_same_time_admit_the_job(order, looks_between):
    parents = enqueue_many([noop.bind(), noop.bind()])
    enqueue(noop.using(after=parents))
    with session() as one, session() as two:
        for each in (one, two):
            hand = Hand(execute=each.execute)
            job = hand.claim_one()
            each.begin()
            assert hand.succeed(job)
        for each in [(one, two), (two, one)][order]:
            assert stored_statuses()[-1] == "WAITING"
            each.commit()
            if looks_between:
                told_statuses()
    assert told_statuses()[-1] == "READY"
    assert not Note.objects.exists()


@pytest.mark.parametrize("verdict", ["SUCCESS", "FAIL"])
def test_successor_that_another_session_holds_is_skipped_and_admitted_later(verdict):
    _, second = enqueue(chain(noop.bind(), noop.bind()))
    admit()
    with session() as other:
        other.begin()
        other.execute(HOLD, {"id": second.pk})
        run_next(verdict)
        assert told_statuses()[1] == "WAITING"
        assert admitting.admit(execute).is_blocked
        other.commit()
    assert told_statuses()[1] == ("READY" if verdict == "SUCCESS" else "CANCELLED")
    assert not admitting.admit(execute).is_blocked


def test_successor_of_a_deleted_job_is_admitted_later_if_another_session_holds_it():
    first, second = enqueue(chain(noop.bind(), noop.bind()))
    admit()
    with session() as other:
        other.begin()
        other.execute(HOLD, {"id": second.pk})
        Job.objects.filter(pk=first.pk).discard()
        assert told_statuses() == ["WAITING"]
        other.commit()
    assert told_statuses() == ["CANCELLED"]
    assert not Note.objects.exists()


def test_job_that_comes_does_not_wait_for_a_predecessor_that_another_session_holds():
    first = enqueue(noop)
    with session() as other:
        other.begin()
        other.execute(HOLD, {"id": first.pk})
        enqueue(noop.using(after=first))
        assert told_statuses() == ["READY", "WAITING"]
        assert admitting.admit(execute).is_blocked
        other.rollback()
    assert told_statuses() == ["READY", "WAITING"]
    assert not Note.objects.exists()
    first.succeed()
    assert told_statuses() == ["SUCCESSFUL", "READY"]


def test_of_two_admissions_at_the_same_time_the_second_does_nothing():
    first = enqueue(noop)
    enqueue(noop.using(after=first))
    first.succeed()
    with session() as one, session() as two:
        one.begin()
        assert admitting.admit(one.execute).admitted == 1
        assert admitting.admit(two.execute).admitted is None
        one.rollback()  # as if it was killed
        assert stored_statuses() == ["SUCCESSFUL", "WAITING"]
        assert admitting.admit(two.execute).admitted == 1
    assert stored_statuses() == ["SUCCESSFUL", "READY"]


def test_job_of_an_old_snapshot_is_admitted():
    first = enqueue(noop)
    with session() as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM pgjobs_job")
        first.succeed()
        old.execute(AFTER, {"id": first.pk})
        assert admitting.admit(old.execute).admitted is None  # it does not see the end
        old.commit()
    assert stored_statuses() == ["SUCCESSFUL", "WAITING"]
    assert told_statuses() == ["SUCCESSFUL", "READY"]


@pytest.mark.parametrize("ended", ["job", "batch"])
def test_job_that_comes_after_the_end_does_not_hide_it_from_those_before(ended):
    """One admission sees a new successor, and an end that others wait for."""
    batch = enqueue(group([noop.bind()]))
    first = noop.using(after=batch if ended == "batch" else batch.jobs.get())
    enqueue(first)
    assert told_statuses() == ["READY", "WAITING"]
    batch.jobs.all().succeed()
    enqueue(first)
    assert told_statuses() == ["SUCCESSFUL", "READY", "READY"]


@pytest.mark.parametrize("looks_before", [False, True])
def test_end_in_an_old_snapshot_admits_the_jobs_that_came_since(looks_before):
    first = enqueue(noop)
    enqueue(noop.using(after=first))
    with session() as old:
        admit()
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM pgjobs_job")
        enqueue(noop.using(after=first))
        if looks_before:
            admit()
        old.execute(
            "UPDATE pgjobs_job SET status = 'FAILED', finished_at = now()"
            f" WHERE id = {first.pk}"
        )
        old.commit()
    assert told_statuses() == ["FAILED", "CANCELLED", "CANCELLED"]


def test_all_may_happen_to_a_chain_in_one_transaction():
    with transaction.atomic():
        first, second = enqueue(chain(noop.bind(), noop.bind()))
        last = enqueue(noop.using(after=second))
        assert statuses() == ["READY", "WAITING", "WAITING"]
        first.fail()
        assert statuses() == ["FAILED", "CANCELLED", "CANCELLED"]
        first.retry()
        assert statuses() == ["READY", "WAITING", "WAITING"]
        first.succeed()
        second.succeed()
        assert statuses() == ["SUCCESSFUL", "SUCCESSFUL", "READY"]
        last.succeed()
        Job.objects.all().retry()
        assert statuses() == ["READY", "WAITING", "WAITING"]


def test_one_admission_admits_a_part_of_many_jobs_and_the_next_ones_the_others(
    monkeypatch,
):
    monkeypatch.setattr(admitting, "ADMISSION_SECONDS", 0.0)
    first = enqueue(noop)
    enqueue_many([noop.using(after=first).bind() for _ in range(2_500)])
    admit()
    first.fail()
    told = []
    while (admission := admitting.admit(execute)).ended:
        told.append(len(admission.ended))
        assert admission.has_more or admission.is_blocked or sum(told) == 2_500
        assert Job.objects.filter(status="CANCELLED").count() == sum(told)
    assert max(told) <= admitting.MOST_ADMITTED
    assert sum(told) == 2_500
    assert not Note.objects.exists()


@pytest.mark.parametrize("act", ["succeed", "fail", "discard"])
def test_end_that_neither_row_nor_note_names_is_found_by_the_sweep(act):
    """Triggers may be disabled, and a role may delete jobs without leaving notes."""
    first = enqueue(noop)
    enqueue_many([noop.using(after=first).bind() for _ in range(600)])
    admit()
    getattr(Job.objects.filter(pk=first.pk), act)()
    Job.objects.filter(pk=first.pk).update(line=None)
    Note.objects.all().delete()
    successors = Job.objects.exclude(pk=first.pk)
    assert set(told_statuses()[-600:]) == {"WAITING"}
    admit()
    expected = "READY" if act == "succeed" else "CANCELLED"
    assert set(successors.values_list("status", flat=True)) == {expected}
