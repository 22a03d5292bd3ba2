"""`reencryptjobs`: a rotation of keys, and what stands in the clear."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import transaction

from pgjobs import enqueue, task
from pgjobs.features.encryption import reencrypting
from pgjobs.models import AuditEntry, Job, Schedule
from tests.actors import Hand, execute, session
from tests.features.encryption import bodies
from tests.features.encryption.bodies import IBAN
from tests.features.encryption.keys import FIRST, OTHER, SECOND, id_of, keys
from tests.features.encryption.rows import whole_database
from tests.processes import drain

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def nothing_got(monkeypatch):
    monkeypatch.setattr(bodies, "got", [])
    monkeypatch.setattr(bodies, "body", lambda *arguments: None)


def reencrypt(*options: str) -> tuple[str, int]:
    """Return what the command says, and its exit code."""
    output = StringIO()
    try:
        call_command("reencryptjobs", *options, stdout=output, stderr=output)
    except SystemExit as end:
        return output.getvalue(), end.code
    return output.getvalue(), 0


def left_by(key: str) -> int:
    return whole_database().count(f"{id_of(key)}:")


def body_that_keeps(job, iban):
    if iban == "asks":
        job.step("look", lambda: {"iban": IBAN})
        return job.wait_for("to", str)
    if iban == "waits":
        other = job.step("other", lambda: Job.objects.get(task=bodies.apay.name).pk)
        return job.wait_for_jobs("ends", [other])[0].value
    raise ValueError


def fill(monkeypatch) -> list[Job]:
    """Leave values at all places, by the first key."""
    monkeypatch.setattr(bodies, "body", body_that_keeps)
    done = enqueue(bodies.apay, IBAN)
    drain()
    jobs = [
        enqueue(bodies.pay_all.using(queue_name="later"), IBAN, "two", note=IBAN),
        enqueue(bodies.pay, "asks"),
        enqueue(bodies.takes, "waits"),
    ]
    drain(queues=["default"])
    asking = enqueue(bodies.pay.using(queue_name="later"), "asks")
    assert asking.answer("to", IBAN)
    return [done, *jobs, asking]


def test_rotation_moves_all_to_the_first_key_and_names_the_old_one(monkeypatch):
    with keys(FIRST):
        done, later, asks, _, asking = fill(monkeypatch)
        assert left_by(FIRST) >= 9
    with keys(SECOND, FIRST):
        output, code = reencrypt()
        assert f"Key {id_of(FIRST)} is out of use" in output
        assert code == 0
    assert left_by(FIRST) == 0
    assert IBAN not in whole_database()
    with keys(SECOND):
        assert done.wait(timeout=5) == {"iban": IBAN}
        assert asks.answer("to", "x")
        drain()
        assert asks.wait(timeout=5) == "x"
        assert asking.wait(timeout=5) == IBAN
        later.refresh_from_db()
        assert later.status == "SUCCESSFUL"
    assert AuditEntry.objects.get(act="reencrypt").number >= 4


def test_second_run_changes_nothing(monkeypatch):
    with keys(FIRST):
        fill(monkeypatch)
    with keys(SECOND, FIRST):
        reencrypt()
        AuditEntry.objects.all().delete()
        before = whole_database()
        output, _ = reencrypt()
        assert output.startswith("Encrypted 0 rows anew, with 0 values")
        AuditEntry.objects.all().delete()
        assert whole_database() == before


def test_dry_run_counts_and_changes_nothing(monkeypatch):
    with keys(FIRST):
        fill(monkeypatch)
    before = whole_database()
    with keys(SECOND, FIRST):
        output, code = reencrypt("--dry-run")
    assert whole_database() == before
    assert "Would encrypt" in output
    assert f"Key {id_of(FIRST)} is in use by" in output
    assert code == 0


def test_value_of_an_unknown_key_is_named_and_the_exit_code_says_so():
    with keys(OTHER):
        job = enqueue(bodies.pay, IBAN)
    with keys(FIRST):
        fine = enqueue(bodies.pay, IBAN)
    with keys(SECOND, FIRST):
        output, code = reencrypt()
    assert code == 1
    assert f"job {job.pk}: " in output
    assert id_of(OTHER) in output
    fine.refresh_from_db()
    assert fine.kwargs["iban"].startswith(id_of(SECOND))


def test_what_stands_in_the_clear_is_encrypted():
    plain = Job.objects.create(task=bodies.pay.name, kwargs={"iban": IBAN})
    kept = Job.objects.create(task=bodies.takes.name, kwargs={"iban": "other"})
    with keys(FIRST):
        output, _ = reencrypt("--dry-run")
        assert output.startswith("Would encrypt 1 rows anew, with 1 values")
        reencrypt()
        assert IBAN not in whole_database()
        drain()
    plain.refresh_from_db()
    kept.refresh_from_db()
    assert plain.status == "SUCCESSFUL"
    assert kept.kwargs == {"iban": "other"}
    assert tuple(iban for iban, *_ in bodies.got if iban == IBAN) == (IBAN,)


def test_argument_that_became_encrypted_later_is_encrypted_beside_the_others():
    declared = task(name="tests.encryption.later", encrypted=("first",))(two)
    with keys(FIRST):
        job = enqueue(declared, "one", "two")
        task(name="tests.encryption.later", encrypted=True)(two)
        reencrypt()
        job.refresh_from_db()
        assert job.keys["encrypted"]["names"] == ["first", "second"]
        drain()
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL", job.reason


def two(first: str, second: str):
    assert (first, second) == ("one", "two")


def test_running_job_in_the_clear_is_left_and_named():
    plain = Job.objects.create(task=bodies.pay.name, kwargs={"iban": IBAN})
    hand = Hand()
    hand.claim()
    with keys(FIRST):
        output, code = reencrypt()
    plain.refresh_from_db()
    assert plain.kwargs == {"iban": IBAN}
    assert "1 jobs run whose values stand in the clear" in output
    assert code == 1


def test_row_that_another_transaction_holds_is_left_to_the_next_run():
    with keys(FIRST):
        job = enqueue(bodies.pay, IBAN)
    with keys(SECOND, FIRST), session() as other:
        other.execute("BEGIN")
        other.execute(f"SELECT FROM pgjobs_job WHERE id = {job.pk} FOR UPDATE")
        output, code = reencrypt()
        assert output.startswith("Encrypted 0 rows anew")
        assert f"Key {id_of(FIRST)} is in use by 1 values" in output
        assert "1 rows were held by others" in output
        assert code == 1


def test_schedule_in_the_clear_is_named():
    Schedule.objects.create(
        name="old", task=bodies.pay.name, kwargs={"iban": IBAN}, every="01:00:00"
    )
    with keys(FIRST):
        output, code = reencrypt()
    assert "schedule old: iban stands in the clear" in output
    assert IBAN not in output
    assert code == 1


def test_key_of_rows_that_move_is_not_called_out_of_use():
    with keys(FIRST):
        job = enqueue(bodies.pay, IBAN)
    execute(
        "INSERT INTO pgjobs_move (source, destination, selection, id) "
        "VALUES ('default', 'other', '{}', gen_random_uuid())"
    )
    execute(
        'INSERT INTO pgjobs_parcel (move_id, "table", content) '
        "SELECT pgjobs_move.id, 'pgjobs_job', to_jsonb(job) "
        "FROM pgjobs_move, pgjobs_job AS job"
    )
    job.delete()
    with keys(SECOND, FIRST):
        output, code = reencrypt()
    assert "out of use" not in output
    assert "rows on their way to another database" in output
    assert code == 1


def test_it_is_refused_without_a_key():
    with keys(), pytest.raises(CommandError, match="has no key"):
        call_command("reencryptjobs")
    assert not AuditEntry.objects.exists()
    assert not transaction.get_connection().in_atomic_block


MARKS = (
    *(5, [], {}, {"by": 5}, {"by": "x", "names": 5}, {"by": "x"}),
    *({"by": "x", "names": [{}]}, {"by": "x", "names": {"iban": 1}}),
    {"by": "x", "rest": True},
)


@pytest.mark.parametrize("mark", MARKS)
def test_mark_that_cannot_be_read_hinders_no_other_job(mark):
    with keys(FIRST):
        broken, fine = (enqueue(bodies.pay, IBAN) for _ in range(2))
    Job.objects.filter(pk=broken.pk).update(keys={"encrypted": mark})
    with keys(SECOND, FIRST):
        output, code = reencrypt()
    fine.refresh_from_db()
    assert fine.kwargs["iban"].startswith(id_of(SECOND)), output
    assert f"job {broken.pk}: " in output
    assert code == 1


def test_each_statement_reads_few_rows_however_few_are_encrypted(monkeypatch):
    execute("""
        INSERT INTO pgjobs_job (task, kwargs)
        SELECT 'tests.encryption.takes', '{"iban": "plain"}'
        FROM generate_series(1, 9000)
    """)
    with keys(FIRST):
        job = enqueue(bodies.pay, IBAN)
    execute("ANALYZE pgjobs_job")
    read: list[int] = []

    def explained(query, parameters):
        if query.lstrip().startswith("--") and "store" not in query.lower()[:9]:
            ((plan,),) = execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", parameters)
            read.append(rows_read(plan[0]["Plan"]))
        return execute(query, parameters)

    monkeypatch.setattr(reencrypting, "execute_on", lambda database: explained)
    with keys(SECOND, FIRST):
        reencrypt()
    assert len(read) >= 2 * 5
    assert max(read) <= reencrypting.MOST_READ
    job.refresh_from_db()
    assert job.kwargs["iban"].startswith(id_of(SECOND))


def rows_read(plan: dict) -> int:
    own = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
    below = [rows_read(each) for each in plan.get("Plans", ())]
    return max(int(own * plan["Actual Loops"]), *below, 0)


def test_output_has_no_control_characters_of_what_rows_hold():
    with keys(FIRST):
        job = enqueue(bodies.pay_all.using(queue_name="later"), **{"a\x1b[31m\nb": "x"})
        Schedule.objects.create(
            name="old\x1b[31m\nKey",
            task=bodies.pay.name,
            every="01:00:00",
            kwargs={"iban": IBAN},
        )
        changed = dict.fromkeys(job.kwargs, f"{id_of(FIRST)}:AAAA\x1b[31m")
        Job.objects.filter(pk=job.pk).update(kwargs=changed)
        other = enqueue(bodies.pay, IBAN)
        Job.objects.filter(pk=other.pk).update(kwargs={"iban": "\x1b[31mx:AAAA" * 99})
    with keys(SECOND, FIRST):
        output, code = reencrypt()
    assert code == 1
    assert f"job {job.pk}: " in output
    assert f"job {other.pk}: " in output
    assert "schedule old" in output
    assert all(line.isprintable() for line in output.splitlines())
    assert max(map(len, output.splitlines())) < 400
