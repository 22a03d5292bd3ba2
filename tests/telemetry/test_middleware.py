"""Middleware surrounds each attempt, of plain, async and atomic tasks."""

import pytest

from pgjobs import enqueue, task
from pgjobs.models import Attempt
from tests import tasks
from tests.processes import drain, run, shared_queue
from tests.support.checks import found
from tests.telemetry import hooks
from tests.telemetry.tenants import (
    tell_tenant,
    tell_tenant_async,
    tell_tenant_atomically,
)

pytestmark = shared_queue


@pytest.fixture
def use(settings):
    """Puts functions of `hooks` around each attempt; returns what they have seen."""

    def use(*names: str, **others) -> list[str]:
        paths = [f"tests.telemetry.hooks.{name}" for name in names]
        settings.PGJOBS = {"MIDDLEWARE": paths, **others}
        hooks.seen.clear()
        return hooks.seen

    return use


EACH_KIND = pytest.mark.parametrize(
    "told", [tell_tenant, tell_tenant_async, tell_tenant_atomically]
)


@EACH_KIND
def test_middleware_surrounds_an_attempt_in_order(use, told):
    seen = use("outer", "inner")
    job = run(told)
    assert (job.status, job.return_value) == ("SUCCESSFUL", "acme")
    begin = [f"outer begins {told.name}", "inner begins"]
    assert seen == [*begin, "runs", "inner ends", "outer ends"]


@EACH_KIND
def test_what_middleware_sets_ends_with_the_job(use, told):
    use("inner")
    assert run(told).return_value == "acme"
    use()
    assert run(told).return_value == "none"


def test_middleware_sees_the_error_of_an_attempt(use):
    seen = use("outer")
    job = run(tasks.fail_with, "no")
    assert (job.status, job.reason) == ("FAILED", "ValueError: no")
    assert seen[1:] == ["outer saw ValueError", "outer ends"]


def test_traceback_of_an_attempt_begins_at_the_task(use):
    use("outer")
    run(tasks.fail_with, "no")
    first_frame = Attempt.objects.get().traceback.splitlines()[1]
    assert "tests/tasks.py" in first_frame


def test_async_middleware_surrounds_async_tasks(use):
    seen = use("only_async", "inner")
    assert run(tell_tenant_async).status == "SUCCESSFUL"
    assert seen == ["async begins", "inner begins", "runs", "inner ends", "async ends"]


def test_attempt_of_a_plain_task_fails_in_async_middleware(use):
    use("only_async")
    job = run(tell_tenant)
    assert (job.status, job.failures) == ("SCHEDULED", 1)
    assert "only async" in job.reason
    assert "runs" not in hooks.seen


@pytest.mark.parametrize("told", [tell_tenant, tell_tenant_async])
@pytest.mark.parametrize(
    ("name", "reason"),
    [("broken", "no such tenant"), ("rubbish", "must return a context manager")],
)
def test_middleware_that_raises_or_returns_rubbish_ends_the_attempt(
    use, caplog, told, name, reason
):
    """To run the task without its middleware could show it data of another tenant."""
    seen = use("outer", name)
    job = run(told)
    assert (job.status, job.failures) == ("SCHEDULED", 1)
    assert reason in job.reason
    assert f"Middleware name=tests.telemetry.hooks.{name} failed with" in caplog.text
    assert "runs" not in seen
    assert seen[-1] == "outer ends"


def test_middleware_may_put_a_job_off(use):
    use("snoozing")
    job = run(tell_tenant)
    assert (job.status, job.failures) == ("SCHEDULED", 0)


@task(max_attempts=1)
async def fail_async():
    raise ValueError("no")


@pytest.mark.parametrize("failing", [tasks.fail_with.bind("no"), fail_async.bind()])
def test_error_that_middleware_swallows_still_fails_the_job(use, caplog, failing):
    use("swallowing")
    job = run(failing.task, **({} if failing.task is fail_async else {"message": "no"}))
    assert (job.status, job.reason) == ("FAILED", "ValueError: no")
    assert "hooks.swallowing swallowed an error" in caplog.text


def test_good_middleware_passes_the_checks(use):
    use("outer", "inner")
    assert found() == {}


@pytest.mark.parametrize(
    ("name", "id", "complaint"),
    [
        ("missing", "pgjobs.E060", "cannot be imported"),
        ("not_callable", "pgjobs.E060", "is a int"),
        ("only_async", "pgjobs.W061", "plain functions"),
    ],
)
def test_wrong_middleware_is_found_by_a_check(use, name, id, complaint):
    use(name)
    assert complaint in found()[id]


def test_worker_with_missing_middleware_does_not_start(use):
    use("missing")
    enqueue(tell_tenant)
    with pytest.raises(Exception, match="cannot be imported"):
        drain()
