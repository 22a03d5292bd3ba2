"""What is proposed for Django's tasks, under the names that are discussed there."""

from contextvars import copy_context
from math import sqrt

import pytest
from django.test import override_settings

from pgjobs import exponential, task_options
from pgjobs.exceptions import InvalidTask as InvalidOption
from pgjobs.exceptions import TaskTimeout, WorkerLost
from pgjobs.models import Attempt, Job
from pgjobs.queue import inserting, observing
from tests.processes import drain
from tests.standard import InvalidTask, TaskResultStatus, default_task_backend
from tests.support import proposed_tasks
from tests.support.proposed_tasks import tell
from tests.telemetry.hooks import tenant

pytestmark = pytest.mark.django_db(transaction=True)

FAILED = TaskResultStatus.FAILED
TRACE = {"trace_id": 123}


def run(declared, *args, **kwargs):
    """Enqueue a task and drain the queue; return its result, fresh."""
    result = declared.enqueue(*args, **kwargs)
    drain()
    result.refresh()
    return result


@pytest.fixture
def seen():
    """What backoffs were called with."""
    proposed_tasks.seen.clear()
    return proposed_tasks.seen


# Backoff


@pytest.mark.parametrize(
    "declared",
    [proposed_tasks.fail_first, proposed_tasks.fail_first_on_the_loop],
    ids=["sync", "async"],
)
def test_backoff_of_two_parameters_gets_the_exception_and_the_result(seen, declared):
    result = run(declared)
    assert (result.return_value, result.attempts) == (2, 2)
    ((error, failed),) = seen
    assert str(error) == "the first attempt"
    assert (failed.id, failed.status, failed.attempts) == (result.id, FAILED, 1)
    assert [each.exception_class for each in failed.errors] == [ValueError]
    assert "the first attempt" in failed.errors[0].traceback


def test_backoff_that_returns_none_ends_the_attempts(seen):
    result = run(proposed_tasks.not_found)
    assert (result.status, result.attempts) == (FAILED, 1)
    assert Job.objects.get().reason == "LookupError: no such page"
    assert len(seen) == 1


@override_settings(PGJOBS={"TIMEOUT_GRACE": 0.1})
def test_backoff_is_asked_about_an_attempt_that_does_not_stop(seen):
    result = run(proposed_tasks.hang)
    assert (result.status, result.attempts) == (FAILED, 1)
    ((error, failed),) = seen
    assert (type(error), failed.id, failed.attempts) == (TaskTimeout, result.id, 1)
    assert (failed.args, failed.metadata) == ([], {})


def test_backoff_is_asked_about_a_process_that_died(seen):
    result = run(proposed_tasks.die_with_its_process.using(metadata=TRACE))
    assert (result.status, result.attempts) == (FAILED, 2)
    lost = [failed for error, failed in seen if isinstance(error, WorkerLost)]
    assert [(each.id, each.attempts) for each in lost] == [
        (result.id, 1),
        (result.id, 2),
    ]
    assert [each.metadata for each in lost] == [TRACE, TRACE]


def no_parameter():
    return 1


def three(first, second, third):
    return 1


def keyword_only(*, failures):
    return 1


async def on_the_loop(exception, task_result):
    return 1


@pytest.mark.parametrize(
    "backoff",
    [no_parameter, three, keyword_only, on_the_loop, exponential, "5 s", None],
)
def test_backoff_that_takes_anything_else_is_refused_at_declaration(backoff):
    with pytest.raises(InvalidOption, match="backoff"):
        task_options(backoff=backoff)


@pytest.mark.parametrize("backoff", [exponential(), lambda failures: 1, sqrt])
def test_backoff_of_the_number_of_failures_is_taken(backoff):
    task_options(backoff=backoff)


def test_settings_of_the_backend_have_the_proposed_names(use):
    use({"MAX_ATTEMPTS": 4, "BACKOFF": lambda failures: 7, "ENQUEUE_ON_COMMIT": True})
    job = Job.objects.get(pk=tell.enqueue().id)
    assert job.max_attempts == 4
    adapter = default_task_backend.adapters.find(tell.module_path)
    assert adapter.options.backoff(1) == 7


def test_options_count_more_than_the_proposed_settings(use):
    use({"MAX_ATTEMPTS": 4, "OPTIONS": {"max_attempts": 5}})
    assert Job.objects.get(pk=tell.enqueue().id).max_attempts == 5


# Enqueueing on commit


@pytest.mark.parametrize("value", [True, False, None])
def test_enqueue_on_commit_is_taken_and_changes_nothing(value):
    task_options(enqueue_on_commit=value)
    result = tell.using(enqueue_on_commit=value).enqueue()
    assert Job.objects.filter(pk=result.id).exists()


def test_enqueue_on_commit_must_be_a_truth_value():
    with pytest.raises(InvalidOption, match="enqueue_on_commit must be True"):
        task_options(enqueue_on_commit="later")


# Metadata


def test_backend_says_that_it_supports_metadata():
    assert default_task_backend.supports_metadata


def test_metadata_is_there_when_enqueued_in_the_task_and_in_the_result():
    enqueued = tell.using(metadata=TRACE).enqueue()
    assert enqueued.metadata == TRACE
    drain()
    enqueued.refresh()
    assert enqueued.return_value == enqueued.metadata == TRACE
    assert default_task_backend.get_result(enqueued.id).metadata == TRACE


def test_result_without_metadata_has_an_empty_dict():
    assert run(tell).metadata == {}


def test_metadata_does_not_reach_tasks_that_the_task_enqueues():
    result = run(proposed_tasks.enqueue_another.using(metadata=TRACE))
    other = default_task_backend.get_result(result.return_value)
    assert other.metadata == other.return_value == {}
    assert Job.objects.get(pk=other.id).meta["parent_id"] == int(result.id)


@override_settings(PGJOBS={"META": ["tests.telemetry.hooks.tenant"]})
def test_metadata_stands_beside_what_else_a_job_takes_along():
    with_a_tenant = copy_context()
    with_a_tenant.run(tenant.set, "acme")
    result = with_a_tenant.run(tell.using(metadata=TRACE).enqueue)
    job = Job.objects.get(pk=result.id)
    assert job.meta == {"tenant": "acme", "metadata": TRACE}


@override_settings(PGJOBS={"META": ["tests.telemetry.hooks.tenant"]})
def test_job_with_metadata_takes_along_what_is_known_as_it_is_inserted(monkeypatch):
    """So telemetry finds the span of the insertion, and not the one around it."""

    def observe(new_jobs):
        token = tenant.set("of the insertion")
        return lambda jobs, error: tenant.reset(token)

    monkeypatch.setattr(observing, "observers", [observe])
    monkeypatch.setattr(inserting, "observers", [observe])
    result = tell.using(metadata=TRACE).enqueue()
    job = Job.objects.get(pk=result.id)
    assert job.meta == {"tenant": "of the insertion", "metadata": TRACE}
    assert result.metadata == TRACE


@override_settings(PGJOBS={"META": ["tests.telemetry.hooks.tenant"]})
def test_metadata_is_refused_that_is_too_long_beside_the_rest():
    with_a_tenant = copy_context()
    with_a_tenant.run(tenant.set, "x" * 1_500)
    large = tell.using(metadata={"a": "x" * 1_500})
    with pytest.raises(InvalidTask, match="takes along are 30"):
        with_a_tenant.run(large.enqueue)


@pytest.mark.parametrize("fails", [False, True])
def test_changed_metadata_is_saved_at_the_end_also_of_a_failure(fails):
    result = run(proposed_tasks.change.using(metadata=TRACE), fails=fails)
    assert result.metadata == {"trace_id": 123, "changed": True}
    assert (result.status == FAILED) is fails


def test_metadata_is_saved_when_the_task_says_so():
    result = run(proposed_tasks.change_on_the_loop)
    assert result.metadata == {"changed": True, "last": 1}


def test_metadata_of_an_atomic_task_is_rolled_back_with_the_rest(caplog):
    result = run(proposed_tasks.change_and_break_the_transaction.using(metadata=TRACE))
    assert (result.metadata, result.status) == (TRACE, FAILED)
    assert "metadata" not in caplog.text


def test_metadata_is_saved_again_whose_transaction_was_rolled_back():
    result = run(proposed_tasks.save_in_what_is_rolled_back)
    assert (result.metadata, result.status) == ({"changed": True}, FAILED)


def test_metadata_that_is_no_json_fails_the_job_and_says_why():
    result = run(proposed_tasks.spoil)  # again it would do what it has done
    assert (result.status, result.attempts) == (FAILED, 1)
    assert "metadata cannot be stored" in Attempt.objects.get().message


def test_attempt_that_lost_its_job_saves_no_metadata():
    result = run(proposed_tasks.lose_and_change.using(metadata=TRACE))
    assert (result.metadata, result.status) == (TRACE, FAILED)
    assert Job.objects.get().reason == "an operator was faster"


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (["a"], "metadata must be a dict"),
        ({"a": object()}, "metadata cannot be stored"),
        ({"a": "x" * 3_000}, "bytes of JSON, and may be 2000"),
    ],
)
def test_metadata_that_cannot_be_stored_is_refused_before_anything(metadata, why):
    with pytest.raises(InvalidTask, match=why):
        tell.using(metadata=metadata).enqueue()
    assert not Job.objects.exists()


def test_metadata_is_no_option_of_a_task():
    with pytest.raises(InvalidOption, match="no option 'metadata'"):
        task_options(metadata=TRACE)
