"""The kit for projects' tests runs jobs inside of what the settings put around them."""

import logging

import pytest

from pgjobs import current_job, enqueue, signals, task
from pgjobs.models import Job
from pgjobs.testing import override_mode, perform, run_jobs
from tests import tasks
from tests.telemetry import hooks
from tests.telemetry.conftest import own_tasks  # noqa: F401
from tests.telemetry.tenants import (
    tell_tenant,
    tell_tenant_async,
    tell_tenant_atomically,
)
from tests.telemetry.test_meta import within

pytestmark = pytest.mark.django_db


@pytest.fixture
def use(settings):
    def use(**given) -> list[str]:
        settings.PGJOBS = given
        hooks.seen.clear()
        return hooks.seen

    return use


@task
def tell_own_meta():
    return [hooks.tenant.get("none"), current_job().meta]


@task(keep_logs="WARNING")
def log_something():
    logging.getLogger("shop").warning("two\nlines")
    logging.getLogger("shop").warning("one line")


def by_perform(told):
    return perform(told.bind()).return_value


def by_inline(told):
    with override_mode("inline"):
        return enqueue(told).return_value


def by_run_jobs(told):
    job = enqueue(told)
    run_jobs()
    job.refresh_from_db()
    return job.return_value


EACH_WAY = pytest.mark.parametrize("way", [by_perform, by_inline, by_run_jobs])


@EACH_WAY
@pytest.mark.parametrize(
    "told", [tell_tenant, tell_tenant_async, tell_tenant_atomically]
)
def test_middleware_surrounds_the_attempt(use, told, way):
    paths = ["tests.telemetry.hooks.outer", "tests.telemetry.hooks.inner"]
    seen = use(MIDDLEWARE=paths)
    assert way(told) == "acme"
    begin = [f"outer begins {told.name}", "inner begins"]
    assert seen == [*begin, "runs", "inner ends", "outer ends"]


def test_async_middleware_surrounds_an_async_task(use):
    seen = use(MIDDLEWARE=["tests.telemetry.hooks.only_async"])
    perform(tell_tenant_async.bind())
    assert seen == ["async begins", "runs", "async ends"]


def test_error_of_a_middleware_is_raised(use):
    use(MIDDLEWARE=["tests.telemetry.hooks.broken"])
    with pytest.raises(LookupError, match="no such tenant"):
        perform(tasks.noop.bind())


@pytest.mark.parametrize("mode", ["inline", "manual"])
def test_job_finds_what_it_took_along(use, mode):
    use(META=["tests.telemetry.hooks.tenant"])
    with override_mode(mode):
        job = within(lambda: enqueue(tell_own_meta))
        run_jobs()
    assert Job.objects.get(pk=job.pk).return_value == ["acme", {"tenant": "acme"}]


@pytest.mark.parametrize(
    ("max_attempts", "name"), [(1, "job_failed"), (2, "job_retried")]
)
def test_receivers_of_ends_get_the_error(max_attempts, name):
    heard = []

    def receive(job, error, **named):
        heard.append((job.status, str(error)))

    signal = getattr(signals, name)
    signal.connect(receive)
    try:
        enqueue(tasks.fail_with.using(max_attempts=max_attempts), "no")
        run_jobs(raise_errors=False)
    finally:
        signal.disconnect(receive)
    status = "FAILED" if name == "job_failed" else "SCHEDULED"
    assert heard == [(status, "no")]


def test_records_that_are_kept_are_lines_of_the_performed_job():
    log = perform(log_something.bind()).log
    assert log == ["WARNING shop: two\nlines", "WARNING shop: one line"]
