"""SQL's functions: jobs that psql, triggers and other languages enqueue."""

import json
from datetime import timedelta
from typing import Literal

import psycopg
import pytest
from django.utils import timezone

import pgjobs
from pgjobs import ALL, chain, task
from pgjobs.models import Job, Progress, Status
from tests.actors import Hand, admit, overlapping, session
from tests.features.dependencies import exports  # noqa: F401  (SQL names it)
from tests.operators import STATUSES, make_job
from tests.processes import shared_queue, wait_for
from tests.settings import SCHEMA
from tests.sql import enqueued, psql, refused
from tests.support.declared import store_definitions
from tests.tasks import add, generate_monthly

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def synced(db):
    store_definitions("default")


def declare(**options):
    """Declare a task `tests.file` with these options, and tell the database."""
    made = task(name="tests.file", **options)(file)
    store_definitions("default")
    return made


def file(path: str, size: int = 0): ...


def lock_of(path, size):
    return path


# Calls that were written for another queue


def test_the_procedure_inserts_a_job_with_its_priority():
    psql(
        "CALL pgjobs_insert_job('reports', 'generate_monthly', 10,"
        """ '{"client_id": 42, "month": "2024-01"}'::json)"""
    )
    job = Job.objects.get()
    assert (job.task, job.priority, job.status) == (generate_monthly.name, 10, "READY")
    assert job.kwargs == {"client_id": 42, "month": "2024-01", "format": "pdf"}


def test_untyped_literals_will_do():
    arguments = """'{"client_id": 1, "month": "x"}'"""
    psql(f"CALL pgjobs_insert_job('reports', 'generate_monthly', 1, {arguments})")
    assert len(enqueued(arguments)) == 1
    assert len(enqueued(f"{arguments}, priority => 10")) == 1


@pytest.mark.parametrize(
    ("arguments", "parameter", "says"),
    [
        ('{"client_id": "abc", "month": "x"}', "client_id", 'valid integer, got "abc"'),
        ('{"client_id": 1.5, "month": "x"}', "client_id", "integer, got 1.5"),
        ('{"client_id": true, "month": "x"}', "client_id", "integer, got true"),
        ('{"client_id": 1, "month": null}', "month", "valid string, got null"),
        ('{"client_id": 1}', "month", "month: is missing"),
        ('{"client_id": 1, "month": "x", "y": 1}', "y", "no parameter of this task"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, parameter, says):
    with refused("22023", says, column=parameter):
        enqueued(f"'{arguments}'")
    with refused("22023", says, column=parameter):
        psql(
            "CALL pgjobs_insert_job('reports', 'generate_monthly', 1,"
            f" '{arguments}'::json)"
        )


def test_every_fault_is_named_with_what_the_task_takes():
    with pytest.raises(psycopg.Error) as caught:
        enqueued("""'{"client_id": "x", "odd": 1}'""")
    diagnostic = caught.value.diag
    for fault in ("client_id: input", "month: is missing", "odd: is no parameter"):
        assert fault in diagnostic.message_primary
    assert diagnostic.message_hint == (
        "It takes client_id (integer), month (string), format (string; optional)."
    )


def test_value_that_is_no_choice_is_refused():
    says = "format: input should be 'csv', 'json' or 'parquet', got \"xml\""
    with refused("22023", says, column="format"):
        enqueued("""'{"client_id": 1, "format": "xml"}'""", "exports.export_data")


def test_unknown_task_is_refused_and_the_known_ones_are_named():
    with pytest.raises(
        psycopg.Error, match="No task registered as 'missing'"
    ) as caught:
        enqueued("'{}'", "missing")
    assert caught.value.diag.sqlstate == "22023"
    assert "converter.convert_file" in caught.value.diag.message_hint


def test_task_that_is_gone_is_unknown():
    psql("UPDATE pgjobs_taskdefinition SET gone_at = now() WHERE name = 'tests.add'")
    with refused("22023", "No task registered as 'tests.add'"):
        enqueued("""'{"a": 1}'""", "tests.add")


def test_alias_leads_to_the_task():
    declare(aliases=("tests.old_name",))
    (job,) = enqueued("""'{"path": "p"}'""", "tests.old_name")
    assert job.task == "tests.file"


def test_arguments_larger_than_the_setting_allows_are_refused(settings):
    settings.PGJOBS = {"MAX_ARGUMENT_BYTES": 100}
    store_definitions("default")
    fits = '{"value":"' + "x" * (100 - len('{"value":""}[]')) + '"}'
    (job,) = enqueued(f"'{fits}'", "tests.echo")
    assert len(job.kwargs["value"]) == 86
    with refused("22023", "are 101 bytes of JSON, more than the 100 that PGJOBS"):
        enqueued(f"""'{fits.replace('"}', 'x"}')}'""", "tests.echo")


# Options


def test_options_of_the_task_apply_and_those_of_the_call_come_first():
    declare(queue_name="files", priority=7, max_attempts=9, max_crashes=2, timeout=1.5)
    arguments = """'{"path": "p"}'"""
    (job,) = enqueued(arguments, "tests.file")
    assert (job.queue_name, job.priority) == ("files", 7)
    assert (job.max_attempts, job.max_crashes, job.timeout) == (9, 2, 1.5)
    (job,) = enqueued(
        f"{arguments}, priority => -5, queue_name => 'slow',"
        " run_after => now() + interval '1 hour'",
        "tests.file",
    )
    assert (job.queue_name, job.priority) == ("slow", -5)
    assert job.status == Status.SCHEDULED


def test_task_that_expires_does_so_also_when_sql_enqueues_it():
    declare(expires=timedelta(hours=1))
    (job,) = enqueued("""'{"path": "p"}'""", "tests.file")
    assert timedelta(minutes=59) < job.expires_at - job.enqueued_at
    later = "run_after => now() + interval '1 day'"
    (job,) = enqueued(f"""'{{"path": "p"}}', {later}""", "tests.file")
    assert job.expires_at - job.run_after == timedelta(hours=1)


@pytest.mark.parametrize(
    ("option", "column", "says"),
    [
        ("priority => 101", "priority", "between -100 and 100, got 101"),
        ("priority => -101", "priority", "between -100 and 100"),
        ("queue_name => ''", "queue_name", "1 to 200 characters"),
        ("queue_name => 'a,b'", "queue_name", "without commas"),
        ("queue_name => repeat('q', 201)", "queue_name", "1 to 200"),
        ("queue_name => E'a\\nb'", "queue_name", "control characters"),
        ("queue_name => ' a'", "queue_name", "not begin or end with a space"),
        ("queue_name => 'a '", "queue_name", "not begin or end with a space"),
        ("lock => ''", "lock", "1 to 500 characters long, got 0"),
        ("unique_key => repeat('k', 501)", "unique_key", "got 501"),
    ],
)
def test_option_out_of_range_is_refused(option, column, says):
    with refused("22023", says, column=column):
        enqueued(f"""'{{"client_id": 1, "month": "x"}}', {option}""")


# Locks, limits, uniqueness


def test_lock_is_filled_in_and_holds_the_second_job_back():
    declare(lock="file-{path}-{size}")
    (job,) = enqueued("""'{"path": "a"}'""", "tests.file")
    assert job.keys == {"lock": "file-a-0", "is_ordered": True}
    (second,) = enqueued("""'{"path": "a"}'""", "tests.file")
    assert (second.status, second.waiting_for) == (Status.WAITING, "lock")
    Hand()
    assert statuses([job, second]) == ["READY", "WAITING"]
    second.refresh_from_db()
    assert second.blocked_by_id == job.pk
    (other,) = enqueued("""'{"path": "a"}', lock => 'mine'""", "tests.file")
    assert other.keys["lock"] == "mine"


@pytest.mark.parametrize(
    ("options", "option", "cure"),
    [
        ({"lock": lock_of}, "lock", "lock => 'x'"),
        ({"unique_key": lock_of}, "unique_key", "unique_key => 'x'"),
        ({"max_running": 1, "limit_key": lock_of}, "limit_key", None),
        ({"rate": "1/day", "rate_key": lock_of}, "rate_key", None),
    ],
)
def test_function_of_python_cannot_make_a_key_in_sql(options, option, cure):
    declare(**options)
    arguments = """'{"path": "a"}'"""
    says = f"The {option} of tests.file is a function of Python's, .*lock_of"
    with refused("0A000", says, column=option):
        enqueued(arguments, "tests.file")
    if cure:
        assert len(enqueued(f"{arguments}, {cure}", "tests.file")) == 1


@pytest.mark.parametrize("on_conflict", ["return", "skip", "replace", "raise"])
def test_taken_unique_key_is_treated_as_in_python(on_conflict):
    made = declare(unique=("path",), on_conflict=on_conflict)
    (first,) = enqueued("""'{"path": "a", "size": 1}'""", "tests.file")
    if on_conflict == "raise":
        with refused("23505", f"Job {first.pk} .* already holds", column="unique_key"):
            enqueued("""'{"path": "a"}'""", "tests.file")
        return
    found = enqueued("""'{"path": "a", "size": 2}'""", "tests.file")
    assert found == ([] if on_conflict == "skip" else [first])
    first.refresh_from_db()
    assert first.kwargs["size"] == (2 if on_conflict == "replace" else 1)
    assert Job.objects.count() == 1
    assert made.enqueue("a", 3) == (None if on_conflict == "skip" else first)


def test_key_whose_period_is_over_is_free():
    declare(unique=True, unique_for=60)
    (first,) = enqueued("""'{"path": "a"}'""", "tests.file")
    assert enqueued("""'{"path": "a"}'""", "tests.file") == [first]
    Job.objects.update(unique_until=timezone.now() - timedelta(seconds=1))
    (second,) = enqueued("""'{"path": "a"}'""", "tests.file")
    assert second != first


def test_job_that_has_started_is_not_replaced():
    declare(unique=True, on_conflict="replace")
    (first,) = enqueued("""'{"path": "a"}'""", "tests.file")
    Hand().claim(1)
    assert enqueued("""'{"path": "a"}'""", "tests.file") == [first]


@pytest.mark.django_db(transaction=True)
def test_one_of_two_that_insert_a_unique_job_at_a_time_gets_the_others():
    declare(unique=True)

    def both():
        return psql("""SELECT id FROM pgjobs_enqueue('tests.file', '{"path": "a"}')""")

    first, second = overlapping(both, both)
    assert first == second
    assert Job.objects.count() == 1


# ALL


def test_all_makes_a_job_for_each_value():
    jobs = enqueued("""'{"client_id": 42, "format": "ALL"}'""", "exports.export_data")
    assert [job.kwargs["format"] for job in jobs] == ["csv", "json", "parquet"]
    assert {job.kwargs["client_id"] for job in jobs} == {42}
    (batch,) = {job.batch for job in jobs}
    assert batch.description == "exports.export_data"
    (alone,) = enqueued(
        """'{"client_id": 1, "format": "csv"}'""", "exports.export_data"
    )
    assert alone.batch is None


def test_all_makes_the_product_of_several_parameters_as_in_python():
    made = task(name="tests.sized", lock="{format}", write_all="size, format")(sized)
    store_definitions("default")
    by_python = made.enqueue(ALL, 5, ALL)
    by_sql = enqueued(
        """'{"size": "ALL", "client": 5, "format": "ALL"}'""", "tests.sized"
    )
    assert [job.kwargs for job in by_sql] == [job.kwargs for job in by_python]
    assert [job.keys["lock"] for job in by_sql] == ["csv", "json"] * 3
    assert {job.batch_id for job in by_sql} != {job.batch_id for job in by_python}


def sized(size: Literal[1, 2, 3], client: int, format: Literal["csv", "json"]): ...


def test_all_is_a_text_like_any_other_where_the_task_does_not_take_it():
    (job,) = enqueued("""'{"client_id": 42, "month": "ALL"}'""")
    assert job.kwargs["month"] == "ALL"
    with refused("22023", "valid integer", column="a"):
        enqueued("""'{"a": "ALL"}'""", "tests.add")


def test_all_is_all_or_nothing():
    with refused("22023", "client_id"):
        enqueued("""'{"client_id": "x", "format": "ALL"}'""", "exports.export_data")


# Plain rows


def test_plain_insert_gets_sane_defaults():
    ((id,),) = psql(
        "INSERT INTO pgjobs_job (task, kwargs)"
        """ VALUES ('tests.add', '{"a": 1}') RETURNING id"""
    )
    by_sql, by_python = Job.objects.get(pk=id), add.enqueue(1)
    for field in Job._meta.concrete_fields:
        if field.name not in ("id", "turn", "enqueued_at", "kwargs", "keep"):
            name = field.attname
            assert getattr(by_sql, name) == getattr(by_python, name), name


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ("task", "task must"),
        ("kwargs", "kwargs must"),
        ("queue_name", "queue_name must"),
        ("priority", "priority must"),
        ("status", "worker_id"),
        ("max_attempts", "max_attempts"),
        ("run_after", "from 1970"),
    ],
)
def test_plain_insert_is_checked(columns, fault):
    values = {"task": "'tests.add'", "kwargs": "'{}'"}
    values[columns] = {
        "task": "''",
        "kwargs": "'[]'",
        "queue_name": "'a,b'",
        "priority": "101",
        "status": "'RUNNING'",
        "max_attempts": "0",
        "run_after": "'infinity'",
    }[columns]
    with refused("23514", fault):
        psql(
            f"INSERT INTO pgjobs_job ({', '.join(values)})"
            f" VALUES ({', '.join(values.values())})"
        )


@shared_queue
def test_worker_is_woken_and_runs_what_sql_enqueues(start_worker):
    start_worker("--poll", "600")  # tells the database the tasks, too
    with session() as sql:
        sql.execute(
            "CALL pgjobs_insert_job('reports', 'generate_monthly', 10,"
            """ '{"client_id": 42, "month": "2024-01"}')"""
        )
        sql.execute("""INSERT INTO pgjobs_job (task, kwargs)
            VALUES ('tests.add', '{"a": 1}')""")
    wait_for(lambda: Job.objects.filter(status="SUCCESSFUL").count() == 2, "both ran")
    results = Job.objects.order_by("pk").values_list("return_value", flat=True)
    assert list(results) == ["42_2024-01.pdf", 2]


@shared_queue
def test_what_sql_cannot_check_the_worker_does():
    (right,) = enqueued("""'{"length": "PT1M", "at": {"x": 2}}'""", "tests.rest")
    (wrong,) = enqueued("""'{"length": "much", "at": {"x": 2}}'""", "tests.rest")
    with refused("22023", "of the JSON type string, got true", column="length"):
        enqueued("""'{"length": true}'""", "tests.rest")
    with refused("22023", r"at: \['x'\] is missing", column="at"):
        enqueued("""'{"length": "PT1M", "at": {"y": 2}}'""", "tests.rest")
    assert pgjobs.drain() == 2
    right.refresh_from_db()
    wrong.refresh_from_db()
    assert right.return_value == "60 Point(x=2)"
    assert wrong.status == "FAILED"
    assert "length: input should be a valid duration" in wrong.reason


# Acts


def act(name: str, id: int) -> bool | str | None:
    return psql(f"SELECT {name}(%s)", [id])[0][0]


def comparable(job: Job) -> dict:
    """Return the columns of the job; of a moment only whether there is one."""
    job.refresh_from_db()
    values = {field.attname: getattr(job, field.attname) for field in fields_of_job()}
    return {
        name: value is not None if hasattr(value, "tzinfo") else value
        for name, value in values.items()
    }


def fields_of_job():
    return [
        each
        for each in Job._meta.concrete_fields
        if each.name not in ("id", "turn", "worker")
    ]


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("verb", ["cancel", "retry"])
def test_act_by_sql_does_what_the_one_by_python_does(verb, status):
    by_python, by_sql = make_job(status), make_job(status)
    Job.objects.update(dependencies={"needs": [], "provides": []})
    for job in (by_python, by_sql):
        Progress.objects.create(
            job_id=job.pk, done=1, total=2, updated_at=timezone.now()
        )
    changed = getattr(by_python, verb)()
    assert act(f"pgjobs_{verb}", by_sql.pk) is changed
    assert comparable(by_sql) == comparable(by_python)
    assert (
        Progress.objects.filter(job_id=by_sql.pk).exists()
        == Progress.objects.filter(job_id=by_python.pk).exists()
    )
    assert act(f"pgjobs_{verb}", by_sql.pk) is getattr(by_python, verb)()


def test_retry_leaves_a_job_whose_unique_key_another_one_holds():
    declare(unique=True)
    (first,) = enqueued("""'{"path": "a"}'""", "tests.file")
    act("pgjobs_cancel", first.pk)
    (second,) = enqueued("""'{"path": "a"}'""", "tests.file")
    assert act("pgjobs_retry", first.pk) is False
    act("pgjobs_cancel", second.pk)
    assert act("pgjobs_retry", first.pk) is True


@pytest.mark.django_db(transaction=True)
def test_retry_ends_where_its_transaction_cannot_see_the_holder_of_the_key():
    task = declare(unique=True)
    job = task.enqueue("a")
    job.cancel()
    options = f"-c statement_timeout=20s -c search_path={SCHEMA}"
    with session(options=options) as late:
        late.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        late.execute("SELECT FROM pgjobs_job")
        task.enqueue("a")
        with pytest.raises(psycopg.errors.UniqueViolation):
            late.execute("SELECT pgjobs_retry(%(id)s)", {"id": job.pk})


@pytest.mark.parametrize("by_sql", [False, True])
def test_retry_revives_what_was_cancelled_because_of_the_job(by_sql):
    jobs = chain(add.bind(1), add.bind(2), add.bind(3)).enqueue()
    assert statuses(jobs) == ["READY", "WAITING", "WAITING"]
    jobs[0].fail("no")
    assert statuses(jobs) == ["FAILED", "CANCELLED", "CANCELLED"]
    assert act("pgjobs_retry", jobs[0].pk) if by_sql else jobs[0].retry()
    assert statuses(jobs) == ["READY", "WAITING", "WAITING"]


def statuses(jobs) -> list[str]:
    admit()
    ids = [job.pk for job in jobs]
    found = Job.objects.filter(pk__in=ids).order_by("pk")
    return list(found.values_list("status", flat=True))


def test_acts_on_no_job_change_nothing():
    assert act("pgjobs_cancel", 0) is False
    assert act("pgjobs_retry", 0) is False
    assert act("pgjobs_job_status", 0) is None


def test_cancel_takes_a_reason():
    job = add.enqueue(1)
    psql("SELECT pgjobs_cancel(%s, 'Not needed.')", [job.pk])
    job.refresh_from_db()
    assert (job.status, job.reason) == ("CANCELLED", "Not needed.")
    assert act("pgjobs_job_status", job.pk) == "CANCELLED"


@pytest.mark.django_db(transaction=True)
def test_running_job_is_asked_to_stop_through_its_workers_channel():
    job = make_job("RUNNING")
    channel = f"pgjobs_worker_{job.worker_id}"
    with session() as worker:
        worker.listen(channel)
        assert act("pgjobs_cancel", job.pk) is True
        assert worker.heard() == [(channel, "cancel")]
    job.refresh_from_db()
    assert job.status == "RUNNING"
    assert job.cancel_requested_at is not None


# Meta


def test_sql_producers_give_meta():
    psql("""SELECT pgjobs_enqueue('tests.noop', meta => '{"tenant": "acme"}')""")
    assert Job.objects.get().meta == {"tenant": "acme"}


@pytest.mark.parametrize("given", ["[]", '"a"', json.dumps({"a": "x" * 9_000})])
def test_meta_of_sql_producers_is_checked(given):
    with refused("22023", "meta must be a JSON object", column="meta"):
        psql(f"SELECT pgjobs_enqueue('tests.noop', meta => '{given}')")
