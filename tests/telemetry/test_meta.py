"""What jobs take along from where they are enqueued, and find again as they run."""

import asyncio
import logging
import threading
from contextlib import nullcontext, suppress
from contextvars import copy_context

import pytest
from django.db import IntegrityError, transaction

from pgjobs import current_job, enqueue, enqueue_many, task
from pgjobs.models import Job, Queue
from pgjobs.queue import meta
from pgjobs.reports.job_filters import terms_of, with_terms
from tests import tasks
from tests.actors import execute
from tests.processes import UPKEEP, drain, run, shared_queue, statements_of_workers
from tests.support.checks import found
from tests.telemetry import hooks

pytestmark = shared_queue


@pytest.fixture
def use(settings):
    """Puts variables and functions of `hooks` into PGJOBS["META"]."""

    def use(*names: str, **others) -> None:
        paths = [f"tests.telemetry.hooks.{name}" for name in names]
        settings.PGJOBS = {"META": paths, **others}

    return use


def within(function, tenant: str = "acme", correlation: str | None = None):
    """Call a function where the context variables are set."""

    def call():
        hooks.tenant.set(tenant)
        if correlation is not None:
            hooks.correlation.set(correlation)
        return function()

    return copy_context().run(call)


def stored(job: Job) -> dict | None:
    job.refresh_from_db()
    return job.meta


def tell() -> list:
    return [hooks.tenant.get("none"), current_job().meta]


@task
def tell_meta():
    return tell()


@task
async def tell_meta_async():
    in_thread = await asyncio.to_thread(tell)
    assert in_thread == tell()
    return in_thread


@task(atomic=True)
def tell_meta_atomically():
    return tell()


@task
def enqueue_tree():
    tell_meta.enqueue()
    enqueue_many([tasks.noop.bind(), enqueue_branch.bind()])


@task
def enqueue_branch():
    tasks.noop.enqueue()


# Enqueueing


def test_without_the_setting_there_is_no_meta():
    job = run(tell_meta)
    assert (job.meta, job.return_value) == (None, ["none", {}])
    assert run(enqueue_tree).meta is None
    assert not Job.objects.exclude(meta=None).exists()


def test_functions_and_context_variables_give_jobs_their_meta(use):
    use("tenant", "locale", "nothing")
    job = within(lambda: enqueue(tasks.noop))
    assert job.meta == {"tenant": "acme", "locale": "de"}
    assert stored(job) == job.meta
    assert stored(enqueue(tasks.noop)) == {"locale": "de"}


def test_jobs_of_one_call_have_it_too(use):
    use("tenant")
    unique = tasks.noop.using(unique_key="one")
    bound = [tasks.noop.bind(), tasks.add.bind(1), unique.bind()]
    jobs = within(lambda: enqueue_many(bound))
    assert [stored(job) for job in jobs] == [{"tenant": "acme"}] * 3
    jobs[0].meta["tenant"] = "changed"
    assert jobs[1].meta == {"tenant": "acme"}


def test_job_that_is_replaced_has_the_meta_of_the_last_call(use):
    use("tenant")
    unique = tasks.add.using(unique_key="one", on_conflict="replace")
    job = within(lambda: enqueue(unique, 1))
    within(lambda: enqueue(unique, 2), tenant="other")
    assert stored(job) == {"tenant": "other"}


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("raising", "no request"),
        ("returns_text", "must return a dict"),
        ("returns_objects", "object is not JSON"),
        ("returns_nul", "NUL"),
        ("returns_much", "10000"),
        ("missing", "cannot be imported"),
    ],
)
def test_hook_that_raises_or_returns_rubbish_is_logged_and_skipped(
    use, caplog, name, fault
):
    use("locale", name, "tenant")
    job = within(lambda: enqueue(tasks.noop))
    assert stored(job) == {"locale": "de", "tenant": "acme"}
    (record,) = (each for each in caplog.records if each.levelno == logging.ERROR)
    assert f"source=tests.telemetry.hooks.{name} failed" in record.getMessage()
    assert fault in str(record.exc_info[1])


@pytest.mark.parametrize("name", ["failing_query", "caught_query", "failing_block"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_query_of_a_hook_that_fails_leaves_the_callers_transaction_alone(
    use, name, is_nested
):
    use("locale", name)
    with transaction.atomic(), transaction.atomic() if is_nested else nullcontext():
        before = enqueue(tasks.add, 1)
        job = enqueue(tasks.noop)
        after = enqueue(tasks.add, 2)
    assert [stored(each)["locale"] for each in (before, job, after)] == ["de"] * 3
    assert not Queue.objects.filter(name="of_the_hook").exists()


@pytest.mark.parametrize("is_broken", [False, True])
def test_query_of_a_hook_is_part_of_the_callers_transaction(use, is_broken):
    use("good_query")
    with transaction.atomic(), suppress(ZeroDivisionError), transaction.atomic():
        job = enqueue(tasks.noop)
        assert job.meta == {"seen": 1}
        if is_broken:
            raise ZeroDivisionError
    assert Job.objects.exists() is not is_broken
    assert enqueue(tasks.noop).meta == {"seen": 1}  # in no transaction


def test_hook_without_a_query_costs_no_savepoint(use, django_assert_num_queries):
    use("locale", "tenant")
    with transaction.atomic(), django_assert_num_queries(1):
        enqueue(tasks.noop)


def test_hook_may_enqueue_a_job_which_asks_no_hook(use):
    use("enqueueing", "locale")
    job = enqueue(tasks.noop)
    assert stored(job) == {"seen": "job", "locale": "de"}
    (other,) = Job.objects.exclude(pk=job.pk)
    assert other.meta is None


def test_largest_meta_is_stored(use, monkeypatch):
    """The database counts the spaces that it writes, too."""
    use("locale")
    largest = {f"{number:x}": 1 for number in range(250)}
    while len(meta.dump(largest)) < meta.LARGEST - 30:
        largest[f"{len(largest):x}"] = 1
    monkeypatch.setattr(hooks, "locale", lambda: largest)
    meta.source.cache_clear()
    try:
        assert stored(enqueue(tasks.noop)) == largest
    finally:
        meta.source.cache_clear()


@pytest.mark.parametrize("value", ["5", "[]", f'{{"a": "{"x" * 5_000}"}}'])
def test_row_whose_meta_is_none_is_refused(value):
    with pytest.raises(IntegrityError, match="meta must be an object"):
        execute(
            "INSERT INTO pgjobs_job (task, meta) VALUES ('a', %(value)s::jsonb)",
            {"value": value},
        )


# Running


@pytest.mark.parametrize("told", [tell_meta, tell_meta_async, tell_meta_atomically])
def test_job_finds_its_meta_and_the_context_variables_again(use, told):
    use("tenant", "locale")
    within(lambda: enqueue(told))
    drain()
    expected = ["acme", {"tenant": "acme", "locale": "de"}]
    assert Job.objects.get().return_value == expected
    assert run(told).return_value[0] == "none"


def test_retry_keeps_the_meta(use):
    use("tenant")
    job = within(lambda: enqueue(tell_meta))
    drain()
    job.retry()
    drain()
    job.refresh_from_db()
    assert job.return_value == ["acme", {"tenant": "acme"}]


def test_jobs_that_jobs_enqueue_inherit_the_meta_and_know_their_parent(use):
    use("tenant", "correlation")
    root = within(lambda: enqueue(enqueue_tree), correlation="r1")
    drain()
    common = {"tenant": "acme", "correlation_id": "r1"}
    assert stored(root) == common
    middle = Job.objects.get(task=enqueue_branch.name)
    first = Job.objects.filter(meta={**common, "parent_id": root.pk})
    assert set(first.values_list("task", flat=True)) == {
        tell_meta.name,
        tasks.noop.name,
        enqueue_branch.name,
    }
    leaf = Job.objects.get(meta__parent_id=middle.pk)
    assert leaf.meta == {**common, "parent_id": middle.pk}
    assert Job.objects.filter(meta__correlation_id="r1").count() == 5


def test_tree_of_jobs_without_a_correlation_id_gets_one(use):
    use("nothing")
    root = run(enqueue_tree)
    assert stored(root) is None
    ids = Job.objects.exclude(pk=root.pk).values_list("meta__correlation_id", flat=True)
    assert set(ids) == {f"job-{root.pk}"}
    assert len(ids) == 4


def test_job_whose_meta_was_made_rubbish_runs(use):
    use("tenant")
    job = within(lambda: enqueue(tell_meta))
    with pytest.raises(IntegrityError, match="meta must be an object"):
        execute("UPDATE pgjobs_job SET meta = '[1]'")
    execute("ALTER TABLE pgjobs_job DISABLE TRIGGER USER")
    try:
        execute("UPDATE pgjobs_job SET meta = '[1]'")
    finally:
        execute("ALTER TABLE pgjobs_job ENABLE TRIGGER USER")
    drain()
    job.refresh_from_db(fields=["return_value"])
    assert job.return_value == ["none", {}]


def test_context_of_one_job_is_not_that_of_the_next(use):
    use("tenant")
    jobs = [within(lambda: enqueue(tell_meta), tenant=str(n)) for n in range(20)]
    drain(slots=2)
    assert [Job.objects.get(pk=job.pk).return_value[0] for job in jobs] == [
        str(n) for n in range(20)
    ]
    assert hooks.tenant.get("none") == "none"
    assert threading.current_thread() is threading.main_thread()


CHORES = {
    "loop cancel_requests",
    *(f"loop {name}" for name in UPKEEP),
}


def test_meta_costs_no_statement(use):
    def counted() -> set[str]:
        with statements_of_workers() as executed:
            within(lambda: run(tasks.noop))
        # How often, and which chores are due, depends on the moment.
        return set(executed) - CHORES

    before = counted()
    use("tenant")
    assert counted() == before


def test_search_by_correlation_id_uses_the_index():
    jobs = Job.objects.filter(meta__correlation_id="r1")
    execute("SET enable_seqscan = off")
    try:
        assert "pgjobs_job_correlation" in jobs.explain()
    finally:
        execute("RESET enable_seqscan")


def test_good_sources_pass_the_checks(use):
    use("tenant", "locale", "correlation")
    assert found() == {}


@pytest.mark.parametrize(
    ("names", "id", "complaint"),
    [
        (["missing"], "pgjobs.E063", "cannot be imported"),
        (["not_callable"], "pgjobs.E063", "is a int"),
        (["tenant", "other_tenant"], "pgjobs.E064", "called 'tenant'"),
    ],
)
def test_wrong_source_is_found_by_a_check(use, names, id, complaint):
    use(*names)
    assert complaint in found()[id]


def test_jobs_are_found_by_their_meta():
    for number in (1, 2):
        meta = {"tenant": "acme", "user_id": number}
        Job.objects.create(task="tests.noop", meta=meta)
    enqueue(tasks.noop)
    first, second = Job.objects.filter(meta__isnull=False).order_by("pk")

    def ids(text: str) -> set[int]:
        return {job.pk for job in with_terms(Job.objects.all(), terms_of(text))}

    assert ids("meta.tenant:acme") == {first.pk, second.pk}
    assert ids("meta.user_id:2") == {second.pk}
    assert ids("meta.tenant:other") == ids("tenant:acme") == set()
