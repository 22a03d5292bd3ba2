"""What stays for jobs that wait, and what is cleared away."""

from datetime import timedelta

import pytest

from pgjobs import Answer, publish
from pgjobs.features.durable import queue
from pgjobs.features.durable.tables import Answer as AnswerRow
from pgjobs.features.durable.tables import Wait, WaitNote
from pgjobs.features.events import queue as events
from pgjobs.models import Event, Job, Predecessor, Step
from tests.actors import execute, session
from tests.features.durable import bodies
from tests.features.durable.bodies import done, goes_on
from tests.processes import shared_queue
from tests.support.declared import store_definitions

pytestmark = shared_queue
DAY = 86_400.0


def takes(job):
    return job.wait_for_event("order.paid", aggregate_id="5").payload


def prune() -> None:
    execute("UPDATE pgjobs_event SET published_at = now() - interval '31 days'")
    events.prune(execute, 30 * DAY)


@pytest.fixture(autouse=True)
def definitions():
    store_definitions()


def test_event_that_a_job_may_still_take_is_kept_and_one_of_another_is_not():
    done(takes)
    kept = publish("order.paid", aggregate_id="5")
    publish("order.paid", aggregate_id="6")
    prune()
    assert list(Event.objects.all()) == [kept]


def test_event_that_was_taken_is_kept_as_long_as_the_job():
    job = done(takes)
    publish("order.paid", {"euros": 7}, aggregate_id="5")
    assert goes_on(job).status == "SUCCESSFUL"
    prune()
    assert Event.objects.count() == 1
    job.delete()
    prune()
    assert not Event.objects.exists()


def test_event_that_nothing_waits_for_is_pruned():
    publish("order.paid", aggregate_id="5")
    prune()
    assert not Event.objects.exists()


def test_cancelled_job_keeps_no_event():
    job = done(takes)
    publish("order.paid", aggregate_id="5")
    job.cancel()
    prune()
    assert not Event.objects.exists()


# Of jobs that have not asked yet


def asks_later(job):
    job.sleep("nap", DAY * 90)
    return takes(job)


def enqueued_long_ago(job) -> None:
    execute(
        "UPDATE pgjobs_job SET enqueued_at = now() - interval '60 days', keys = keys"
        f" - 'enqueued_in' WHERE id = {job.pk}"  # its time decides
    )


def test_event_for_which_a_job_may_ask_later_is_kept():
    job = done(asks_later)
    enqueued_long_ago(job)
    publish("order.paid", {"euros": 7}, aggregate_id="5")
    prune()
    job.run_now()
    assert goes_on(job).return_value == {"euros": 7}


def test_event_that_was_published_long_before_is_pruned():
    done(asks_later)
    publish("order.paid", aggregate_id="5")
    prune()
    assert not Event.objects.exists()


def test_event_that_no_unfinished_job_declares_is_pruned():
    job = done(asks_later)
    enqueued_long_ago(job)
    publish("order.paid", aggregate_id="5")
    execute('UPDATE pgjobs_job SET keys = keys || \'{"waits_for": ["export.done"]}\'')
    prune()
    assert not Event.objects.exists()
    publish("order.paid", aggregate_id="5")
    execute('UPDATE pgjobs_job SET keys = keys || \'{"waits_for": ["order.*"]}\'')
    job.cancel()
    prune()
    assert not Event.objects.exists()


def test_each_list_of_names_is_asked():
    for names in ('["a"]', '["order.*"]', '["b", "c"]', '["d"]'):
        keys = f'{{"waits_for": {names}}}'
        execute(f"INSERT INTO pgjobs_job (task, keys) VALUES ('none', '{keys}')")
    now = "clock_timestamp()"
    expected = {"a": True, "order.x": True, "c": True, "d": True, "e": False}
    for name, may in expected.items():
        assert execute(f"SELECT pgjobs_may_be_taken('{name}', {now})") == [(may,)]


def test_job_that_waits_keeps_only_what_fits_its_wait():
    job = done(lambda job: job.wait_for("question", bool) and takes(job))
    enqueued_long_ago(job)
    publish("order.paid", aggregate_id="5")
    prune()
    assert not Event.objects.exists()


# Of jobs that end while they wait


def of(job: Job) -> tuple[int, int, int]:
    """Count what is kept of the waits of a job: open ones, notes, and links."""
    return (
        Wait.objects.filter(job=job.pk, ended_at=None).count(),
        WaitNote.objects.filter(job_id=job.pk).count(),
        Predecessor.objects.filter(job_id=job.pk).count(),
    )


def waits_for_all(job):
    first = job.wait_for("first", bool)
    way, _ = job.wait_for_first({"paid": "order.paid", "stop": Answer(bool)})
    return [first, way]


def waits_for_a_job(job):
    child = bodies.child.using(run_after=timedelta(hours=1)).enqueue(1)
    return job.wait_for_jobs("others", [child])


def cancelled(job: Job) -> None:
    assert job.cancel()


def failed(job: Job) -> None:
    assert job.fail("by hand")


def succeeded(job: Job) -> None:
    assert job.succeed()


def ended_by_sql(job: Job) -> None:
    execute(
        "UPDATE pgjobs_job SET status = 'CANCELLED', finished_at = clock_timestamp(),"
        f" waiting_for = NULL WHERE id = {job.pk}"
    )


def over(job: Job) -> None:
    hours = '{"deadline": 3600, "ends_at": 5}'
    execute(
        "UPDATE pgjobs_job SET keys = coalesce(keys, '{}') || %(keys)s::jsonb"
        " WHERE id = %(id)s",
        {"keys": hours, "id": job.pk},
    )
    assert queue.end_lives(execute) == [job.pk]


ENDS = [cancelled, failed, succeeded, ended_by_sql, over]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
@pytest.mark.parametrize("body", [waits_for_all, waits_for_a_job])
def test_job_that_ends_while_it_waits_waits_for_nothing_any_more(body, end):
    job = done(body)
    if body is waits_for_all:
        job.answer("first", True)
        assert goes_on(job).status == "WAITING"
    assert of(job) > (0, 0, 0)
    end(job)
    assert of(job) == (0, 0, 0)
    if body is waits_for_all:  # what it took stays with its step
        assert [wait.name for wait in Wait.objects.all()] == ["first"]
        assert [step.name for step in Step.objects.all()] == ["first"]
        assert not job.answer("stop", True)


@pytest.mark.parametrize("keep_steps", [True, False])
def test_job_that_was_cancelled_while_it_waited_waits_again_in_its_next_life(
    keep_steps,
):
    job = done(waits_for_all)
    job.answer("first", True)
    goes_on(job).cancel()
    assert job.retry(keep_steps=keep_steps)
    if not keep_steps:
        goes_on(job)
        assert job.answer("first", False)
    assert goes_on(job).status == "WAITING"
    assert job.answer("stop", True)
    assert goes_on(job).return_value == [keep_steps, "stop"]


def test_two_thousand_waiting_jobs_are_cancelled_in_one_statement_with_their_waits():
    done(waits_for_a_job)
    (job,) = Job.objects.filter(status="WAITING")
    ids = many_like(job, 2_000)
    assert Job.objects.filter(pk__in=ids).cancel()[0] == 2_000
    assert of(job) == (1, 1, 1)
    assert not Wait.objects.exclude(job=job.pk).exists()
    assert not WaitNote.objects.exclude(job_id=job.pk).exists()
    assert not Predecessor.objects.exclude(job_id=job.pk).exists()


def many_like(job: Job, number: int) -> list[int]:
    """Copy a job that waits, with what it waits for; return the ids of the copies."""
    columns = execute(
        "SELECT string_agg(attname, ', ') FROM pg_attribute"
        " WHERE attrelid = 'pgjobs_job'::regclass AND attnum > 0 AND NOT attisdropped"
        " AND attname NOT IN ('id', 'turn')"
    )[0][0]
    rows = execute(
        f"INSERT INTO pgjobs_job ({columns}) SELECT {columns} FROM pgjobs_job"
        " CROSS JOIN generate_series(1, %(number)s) WHERE id = %(id)s RETURNING id",
        {"number": number, "id": job.pk},
    )
    ids = [id for (id,) in rows]
    execute(
        "INSERT INTO pgjobs_wait (job_id, life, name, kind, asked, deadline)"
        " SELECT copy, life, name, kind, asked, deadline FROM pgjobs_wait"
        " CROSS JOIN unnest(%(ids)s::bigint[]) AS copy WHERE job_id = %(id)s",
        {"ids": ids, "id": job.pk},
    )
    execute(
        "INSERT INTO pgjobs_waitnote (job_id, due_at)"
        " SELECT unnest(%(ids)s::bigint[]), now() + interval '1 day'",
        {"ids": ids},
    )
    execute(
        "INSERT INTO pgjobs_predecessor (job_id, predecessor_id, needs)"
        " SELECT copy, predecessor_id, needs FROM pgjobs_predecessor"
        " CROSS JOIN unnest(%(ids)s::bigint[]) AS copy WHERE job_id = %(id)s",
        {"ids": ids, "id": job.pk},
    )
    return ids


def test_deleted_job_leaves_nothing_of_its_waits():
    job = done(waits_for_all)
    job.delete()
    assert not Wait.objects.exists()
    let_notes_be_due()
    assert not WaitNote.objects.exists()


def let_notes_be_due() -> None:
    execute("UPDATE pgjobs_waitnote SET due_at = now()")
    queue.wake(execute)


def test_wait_of_a_job_that_ended_after_it_was_woken_goes_with_its_note():
    job = done(lambda job: job.wait_for("first", bool))
    job.answer("first", True)
    bodies.body = lambda job: 1 / 0
    execute(f"UPDATE pgjobs_job SET max_attempts = 1 WHERE id = {job.pk}")
    assert goes_on(job).status == "FAILED"
    assert of(job)[:2] == (1, 1)
    let_notes_be_due()
    assert of(job)[:2] == (0, 0)
    assert AnswerRow.objects.filter(job=job.pk).exists()


def test_wait_of_a_job_that_a_worker_woke_and_that_failed_goes_with_its_note():
    job = done(lambda job: job.wait_for("first", bool))
    execute("UPDATE pgjobs_wait SET deadline = now()")
    let_notes_be_due()
    job.refresh_from_db()
    assert job.status == "READY"
    assert of(job)[:2] == (1, 1)
    let_notes_be_due()  # it has not ended
    assert of(job)[:2] == (1, 1)
    job.cancel()
    let_notes_be_due()
    assert of(job)[:2] == (0, 0)


def test_job_that_is_cancelled_while_somebody_answers_leaves_its_wait_to_a_worker():
    job = done(lambda job: job.wait_for("first", bool))
    with session() as other:
        other.begin()
        other.execute(f"SELECT FROM pgjobs_wait WHERE job_id = {job.pk} FOR UPDATE")
        assert job.cancel()
        assert of(job)[0] == 1
        other.execute(f"SELECT pgjobs_note_waiting(ARRAY[{job.pk}]::bigint[])")
        other.commit()
    let_notes_be_due()
    assert of(job) == (0, 0, 0)


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_job_that_is_cancelled_with_an_older_snapshot_leaves_its_wait_to_a_worker(
    level,
):
    job = done(lambda job: job.wait_for("first", bool))
    with session() as other:
        other.execute(f"BEGIN ISOLATION LEVEL {level}")
        other.execute("SELECT FROM pgjobs_wait")
        execute("UPDATE pgjobs_waitnote SET after = 1")
        other.execute(f"SELECT pgjobs_cancel({job.pk})")
        other.commit()
    assert of(job)[0] == 1
    let_notes_be_due()
    assert of(job) == (0, 0, 0)
