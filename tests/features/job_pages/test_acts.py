"""Acts: what the page that asks says, how many are meant, and where one stands then."""

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgjobs.features.job_pages import acts
from pgjobs.models import AuditEntry, ErrorGroup, Job, Queue
from tests.admin.test_admin_bulk import choose, confirm, make_many
from tests.operators import (
    ALL_PERMISSIONS,
    LIST,
    make_job,
    make_worker,
    operator,
    text_of,
    url_of,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def client():
    return operator(*ALL_PERMISSIONS)


# What it says


def test_confirmation_names_the_filters_in_words(client):
    ErrorGroup.objects.create(
        id=7, task="tests.noop", exception_class="shop.Gone", place="charge"
    )
    jobs = make_many(2, error_group=7, queue_name="mail")
    page = choose(client, "retry", jobs, "?group=7&queue_name=mail&q=noop", across=True)
    assert page.context["narrowed"] == [
        ("Queue", "mail"),
        ("Group of errors", "shop.Gone (charge)"),
        ("Search", "noop"),
    ]
    assert "shop.Gone (charge)" in text_of(page)
    few = choose(client, "retry", jobs, "?group=7")
    assert few.context["narrowed"] == []


def test_confirmation_shows_a_reason_and_what_would_hold_the_jobs_back(client):
    make_worker(queues="mail,slow")
    Queue.objects.create(name="mail").pause()
    Queue.objects.create(name="slow", max_running=3)
    jobs = [
        make_job(queue_name=name, reason="Declined: no money")
        for name in ("mail", "slow", "reports")
    ]
    said = text_of(choose(client, "retry", jobs))
    assert "The reason of one of them: Declined: no money" in said
    assert "The queue mail has been paused since" in said
    assert "The queue slow runs at most 3 jobs at once." in said
    assert "No worker serves the queue reports." in said
    assert "is paused" not in text_of(choose(client, "delete", jobs))


def test_confirmation_of_one_job_says_what_would_hold_it_back(client):
    Queue.objects.create(name="mail").pause()
    job = make_job(queue_name="mail")
    assert "The queue mail has been paused since" in text_of(
        client.get(url_of("retry", job))
    )


def test_note_of_an_act_stands_in_the_audit_trail(client):
    job = make_job()
    client.post(url_of("retry", job), {"audit_note": "The bank is back."})
    jobs = make_many(2)
    confirm(client, choose(client, "retry", jobs), audit_note="All of them.")
    notes = AuditEntry.objects.order_by("pk").values_list("note", flat=True)
    assert list(notes) == ["The bank is back.", "All of them."]


def test_to_cancel_and_to_go_back_are_different_words(client):
    page = text_of(client.get(url_of("cancel", make_job("READY"))))
    assert 'class="pgjobs-harmful" value="Cancel this job"' in page
    assert ">Keep it</a>" in page
    page = text_of(choose(client, "cancel", make_many(2, "READY")))
    assert 'value="Cancel these jobs"' in page
    assert ">Keep them</a>" in page
    assert 'class="default" value="Retry"' in text_of(
        client.get(url_of("retry", make_job()))
    )


# How many


def test_first_ten_of_many_are_retried(client):
    jobs = make_many(12)
    page = choose(client, "retry", jobs[:1], "?status=FAILED", across=True)
    assert page.context["parts"] == [10]
    confirm(client, page, how_many="10")
    assert list(Job.objects.ready().order_by("pk")) == jobs[:10]
    assert AuditEntry.objects.get().number == 10


def test_first_ten_are_those_whose_status_allows_it(client):
    ended = make_many(2, "READY")
    jobs = make_many(12)
    page = choose(client, "retry", [*ended, *jobs])
    confirm(client, page, how_many="10")
    assert set(Job.objects.ready()) == {*ended, *jobs[:10]}


@pytest.mark.parametrize("how_many", ["", "x", "-1", "99999999999999999999"])
def test_any_number_is_answered(how_many, client):
    jobs = make_many(11)
    page = choose(client, "retry", jobs)
    confirm(client, page, how_many=how_many)
    assert Job.objects.ready().count() == 11


def test_few_jobs_are_not_counted_out(client):
    page = choose(client, "retry", make_many(10))
    assert page.context["parts"] == []
    assert "id_how_many" not in text_of(page)


def test_command_acts_on_the_oldest_so_many(capsys):
    make_job("READY", task="tests.add")
    jobs = make_many(3, task="tests.add")
    call_command("jobs", "retry", "--task", "tests.add", "--limit", "2", "--dry-run")
    assert "Would retry 2 jobs." in capsys.readouterr().out
    call_command("jobs", "retry", "--task", "tests.add", "--limit", "2")
    assert list(Job.objects.failed()) == jobs[2:]


# Where one stands


def test_one_stands_where_the_jobs_went(client):
    jobs = make_many(2, queue_name="mail")
    query = "?queue_name=mail&status=FAILED&ended=day"
    response = confirm(client, choose(client, "retry", jobs, query))
    assert response["Location"] == f"{LIST}?status=READY&queue_name=mail"
    response = confirm(client, choose(client, "cancel", jobs))
    assert response["Location"] == f"{LIST}?status=CANCELLED"


def test_one_stays_where_nothing_changed_or_is_deleted(client):
    jobs = make_many(2)
    page = choose(client, "delete", jobs, "?status=FAILED")
    assert confirm(client, page)["Location"] == f"{LIST}?status=FAILED"
    assert confirm(client, page)["Location"] == f"{LIST}?status=FAILED"


def test_confirmation_looks_at_some_of_many_jobs(client, monkeypatch):
    monkeypatch.setattr(acts, "MOST_LOOKED_AT", 2)
    queue = Queue.objects.create(name="mail")
    queue.pause()
    jobs = [make_job("FAILED", reason="") for _ in range(2)]
    jobs.append(make_job("FAILED", reason="seldom", queue_name="mail"))
    with CaptureQueriesContext(connection) as statements:
        choose(client, "retry", jobs)
    some = [each["sql"] for each in statements if "LEFT(" in each["sql"]]
    assert any("LIMIT 2" in each for each in some)
