"""Results wherever jobs run: in tests, inline, from SQL, in several databases."""

import pytest
from django.db import IntegrityError

from pgjobs import chain, current_job, enqueue, group, outcomes, result, results, task
from pgjobs.models import Job
from pgjobs.testing import run_jobs
from tests import standard_tasks
from tests.actors import Hand, execute
from tests.processes import drain, shared_queue
from tests.tasks import add, echo, fail_with, pair, total

pytestmark = shared_queue


def test_kit_runs_a_chain_with_results(db):
    *_, last = enqueue(
        chain(
            add.bind(1, 2),
            group([add.bind(result), add.bind(result, 5)]),
            total.bind(results),
        )
    )
    run_jobs()
    last.refresh_from_db()
    assert last.return_value == 4 + 8


def test_kit_raises_for_a_misfit(db):
    enqueue(chain(echo.bind("text"), add.bind(result)))
    with pytest.raises(Exception, match=r"the result of job \d+, tests\.echo"):
        run_jobs()


def test_mode_inline_runs_a_chain_with_results(settings, db):
    settings.PGJOBS = {**settings.PGJOBS, "MODE": "inline"}
    *_, last = enqueue(
        chain(group([add.bind(1, 0), add.bind(2, 0)]), echo.bind(results))
    )
    assert last.return_value == [1, 2]
    enqueue(group([echo.bind("one")], then=pair.bind(results, outcomes)))
    ended = Job.objects.get(task="tests.pair")
    assert ended.return_value[0] == ["one"]


def test_steps_and_results_go_together():
    steps = task(name="tests.results.steps")(does_steps)
    _, last = enqueue(chain(add.bind(1, 2), steps.bind(result)))
    drain()
    last.refresh_from_db()
    assert last.return_value == [3, 4]


def does_steps(number: int) -> list[int]:
    job = current_job()
    return [number, job.step("more", lambda: number + 1)]


def test_job_that_goes_on_as_another_gives_the_result_of_that_one():
    goes_on = task(name="tests.results.goes_on")(goes_on_once)
    _, last = enqueue(chain(goes_on.bind(1), echo.bind(result)))
    drain()
    last.refresh_from_db()
    assert last.return_value == 2


def goes_on_once(number: int) -> int:
    if number == 1:
        current_job().continue_as(number + 1)
    return number


def test_coroutine_and_atomic_task_get_results():
    atomic = task(name="tests.results.atomic", atomic=True)(twice)
    _, last = enqueue(chain(add.bind(1, 2), atomic.bind(result)))
    drain()
    last.refresh_from_db()
    assert last.return_value == 6


def twice(number: int) -> int:
    return 2 * number


def test_job_of_djangos_tasks_gives_its_result():
    standard_tasks.add.enqueue(1, 2)
    first = Job.objects.get()
    last = echo.using(after=first).enqueue(result)
    drain()
    last.refresh_from_db()
    assert last.return_value == 3


# SQL

INSERT = (
    "INSERT INTO pgjobs_job (task, kwargs, keys) VALUES ('tests.echo', '{}', "
    "jsonb_build_object('after', jsonb_build_array(%(id)s::bigint), "
    "'results', %(results)s::jsonb)) RETURNING id"
)


def test_sql_may_name_results_too():
    job = enqueue(echo, 5)
    entry = f'{{"value": {{"of": "result", "jobs": [{job.pk}]}}}}'
    ((id,),) = execute(INSERT, {"id": job.pk, "results": entry})
    drain()
    assert Job.objects.get(pk=id).return_value == 5


@pytest.mark.parametrize(
    "entry",
    [
        "5",
        '{"value": 5}',
        '{"value": {"of": "result"}}',
        '{"value": {"of": "all", "jobs": [ID]}}',
        '{"value": {"of": "result", "jobs": [4711]}}',
        '{"value": {"of": "result", "jobs": ["x"]}}',
        '{"value": {"of": "results", "batch": 5}}',
        '{"value": {"of": "result", "jobs": [ID], "path": 5}}',
        '{"value": {"of": "result", "jobs": [ID], "is_one": 5}}',
        '{"value": {"of": "results", "jobs": [ID], "bytes": -5}}',
        '{"value": {"of": "results", "jobs": [ID], "others": [[1, 4711]]}}',
    ],
)
def test_row_that_names_no_result_is_refused(entry, db):
    job = enqueue(echo, 5)
    with pytest.raises(IntegrityError, match="keys: results must be"):
        execute(INSERT, {"id": job.pk, "results": entry.replace("ID", str(job.pk))})


@pytest.mark.parametrize(
    ("kwargs", "reason"),
    [({"number": 5}, "number: is no parameter of this task"), ({}, "no result")],
)
def test_argument_that_the_task_does_not_have_fails_the_job(kwargs, reason):
    job = enqueue(echo, 5)
    name = next(iter(kwargs), "value")
    path = "" if kwargs else ', "path": ["a"]'
    entry = f'{{"{name}": {{"of": "result", "jobs": [{job.pk}]{path}}}}}'
    ((id,),) = execute(INSERT, {"id": job.pk, "results": entry})
    drain()
    last = Job.objects.get(pk=id)
    assert last.status == "FAILED"
    assert last.reason


# Bounds


def test_results_of_too_many_bytes_fail_the_job(settings):
    settings.PGJOBS = {**settings.PGJOBS, "MAX_RESULT_BYTES": 100}
    members = [echo.bind("x" * 90) for _ in range(12)]
    _, last = enqueue(chain(group(members), echo.bind(results)))
    drain()
    last.refresh_from_db()
    assert last.status == "FAILED"
    assert "bytes of JSON, more than the 1000 of ten times" in last.reason


def job_after_a_group_of(number: int) -> Job:
    """Return a job that has got the results of so many jobs, or has failed."""
    hand = Hand()
    batch = enqueue(group([echo.bind(number)]))  # without a place: it comes last
    (member,) = hand.claim()
    assert hand.succeed(member, str(number))
    execute(
        "INSERT INTO pgjobs_job (task, status, finished_at, keys, batch_id,"
        " return_value) SELECT 'tests.echo', 'SUCCESSFUL', now(), jsonb_build_object("
        "'batch_id', %(id)s::bigint, 'place', number), %(id)s, to_jsonb(number)"
        " FROM generate_series(1, %(others)s) AS number",
        {"id": batch.pk, "others": number - 1},
    )
    last = ends_of.using(after=batch).enqueue(results)
    drain()
    last.refresh_from_db()
    return last


@task(name="tests.results.ends_of")
def ends_of(values: list[int]) -> list[int]:
    assert values == [*range(1, len(values) + 1)]
    return [len(values), values[-1]]


def test_results_of_ten_thousand_jobs_are_a_list(db):
    assert job_after_a_group_of(10_000).return_value == [10_000, 10_000]


def test_results_of_too_many_jobs_fail_the_job(db):
    last = job_after_a_group_of(10_001)
    assert last.status == "FAILED"
    assert "more than 10000 jobs" in last.reason


def test_secret_argument_is_masked_in_the_reason_of_a_misfit():
    secretive = task(name="tests.results.secretive", sensitive=("iban",))(takes_iban)
    _, last = enqueue(chain(echo.bind("DE89370400440532"), secretive.bind(result)))
    drain()
    last.refresh_from_db()
    assert last.status == "FAILED"
    assert "DE89370400440532" not in last.reason
    assert "tests.echo" in last.reason


def takes_iban(iban: int) -> None:
    pass


def test_failure_before_is_no_misfit_where_outcomes_are_asked_for():
    job = enqueue(fail_with, "no")
    last = echo.using(after=job, after_failure="run").enqueue(outcomes)
    drain()
    last.refresh_from_db()
    assert last.return_value["status"] == "FAILED"
