"""What the system checks and `jobstatus` say of tasks that wait."""

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.test import override_settings

from pgjobs import current_job, publish, task
from pgjobs.features.durable.checks import check_answer_pages, check_waits
from pgjobs.models import Event
from pgjobs.tasks.registry import registry
from tests.actors import execute
from tests.features.durable.bodies import done
from tests.processes import shared_queue
from tests.support.declared import store_definitions


def one():
    """A body that is never called."""


def two():
    """Another one: the registry knows tasks by where they are defined."""


def three():
    """A third one."""


def mails():
    job = current_job()
    return [job.answer_url(name) for name in ("a", "b")]


async def mails_later():
    return current_job().answer_url("a")


def mails_to_anyone():
    current_job().answer_url("a")
    current_job().wait_for("a", bool, anyone_with_link=True)


urlpatterns: list = []  # of a project without pgjobs.urls
WITHOUT_PAGES = override_settings(ROOT_URLCONF=__name__)


@pytest.fixture
def declare(monkeypatch):
    """Return what declares a task, and forget it after the test."""
    kept = dict(registry.tasks)
    registry.tasks.clear()
    yield lambda function, **options: task(**options)(function)
    registry.tasks.clear()
    registry.tasks.update(kept)


def ids() -> list[str]:
    return [each.id for each in check_waits()]


def test_task_that_waits_with_an_ordered_lock_is_a_warning(declare):
    declare(one, waits_for="order.paid", lock="door")
    assert ids() == ["pgjobs.W066"]


def test_task_that_waits_with_a_mutex_is_none(declare):
    declare(one, waits_for="order.paid", lock="door", lock_mode="mutex")
    assert ids() == []


def test_event_that_may_be_misspelt_is_a_warning(declare):
    declare(one, waits_for=("order.paid", "export.*"))
    declare(two, waits_for=("export.done", "invoice.sent"))
    assert ids() == []
    declare(three, waits_for="order.payd")
    assert ids() == ["pgjobs.W067"] * 2  # either may be wrong
    assert "Did you mean 'order.paid'?" in check_waits()[1].msg


@shared_queue
def test_jobstatus_counts_what_waits():
    store_definitions()
    done(lambda job: job.wait_for("question", bool))
    oldest = done(lambda job: job.wait_for_event("order.paid"))
    done(lambda job: job.wait_for_event("order.paid"))
    publish("order.sent")
    publish("order.sent")
    execute(
        "UPDATE pgjobs_event SET published_at = now() - interval '31 days'"
        f" WHERE id = {Event.objects.latest('pk').pk}"
    )
    out = StringIO()
    call_command("jobstatus", stdout=out)
    said = " ".join(out.getvalue().split())
    assert "Tasks that wait: 3. Events kept for them: 1." in said
    assert f"The oldest that waits for one: job {oldest.pk}." in said
    out = StringIO()
    call_command("jobstatus", json=True, stdout=out)
    counts = json.loads(out.getvalue())["waits"]
    assert counts == {"waiting": 3, "kept_events": 1, "oldest_job": oldest.pk}


def pages() -> list[str]:
    return [each.id for each in check_answer_pages()]


@pytest.mark.parametrize("function", [mails, mails_later, mails_to_anyone])
def test_task_with_links_to_a_page_that_is_not_routed_is_a_warning(declare, function):
    declare(function)
    with WITHOUT_PAGES:
        assert pages() == ["pgjobs.W068"]
    with override_settings(LOGIN_URL="admin:login"):
        assert pages() == []


def test_task_without_links_needs_no_page(declare):
    declare(one)
    with WITHOUT_PAGES:
        assert pages() == []


@pytest.mark.parametrize("login_url", ["/accounts/login/", "no_such_name"])
def test_sign_in_that_leads_nowhere_is_a_warning(declare, login_url):
    declare(mails)
    with override_settings(LOGIN_URL=login_url):
        assert pages() == ["pgjobs.W069"]


@pytest.mark.parametrize("login_url", ["/admin/login/", "https://id.test/in"])
def test_sign_in_of_the_project_is_none(declare, login_url):
    declare(mails)
    with override_settings(LOGIN_URL=login_url):
        assert pages() == []


def test_link_that_is_enough_needs_no_sign_in(declare):
    declare(mails_to_anyone)
    with override_settings(LOGIN_URL="/accounts/login/"):
        assert pages() == []


def test_worker_without_urls_is_not_warned(declare):
    declare(mails)
    with override_settings(ROOT_URLCONF=None):
        assert pages() == []
