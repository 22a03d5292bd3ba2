"""The page of a job: what happened when, and what it is related to."""

import pytest
from django.utils import timezone

from pgjobs.models import Job
from tests.operators import (
    make_job,
    make_worker,
    messages_of,
    operator,
    page_of,
    text_of,
    url_of,
)

pytestmark = pytest.mark.django_db


def moments_of(job) -> list[str]:
    context = operator("view_job").get(page_of(job)).context
    return [moment.text for moment in context["timeline"]]


def test_timeline_has_every_attempt_in_the_order_of_time():
    now = timezone.now()
    at = [now - timezone.timedelta(seconds=each) for each in (60, 50, 45, 40)]
    job = make_job("SUCCESSFUL", attempts=2, enqueued_at=at[0], last_attempted_at=at[3])
    job.attempts_made.create(
        life=1, number=1, started_at=at[1], finished_at=at[2], outcome="FAILED"
    )
    enqueued, first, second, end = moments_of(job)
    assert enqueued == "Enqueued"
    assert first == "Attempt 1: Failed after 5.0 s"
    assert second.startswith("Attempt 2: Successful after 4")
    assert end == "Successful"


def test_attempt_that_runs_is_shown_with_its_worker():
    worker = make_worker("machine 7")
    started = timezone.now() - timezone.timedelta(minutes=4)
    job = make_job(
        "RUNNING", worker_id=worker.pk, attempts=1, last_attempted_at=started
    )
    assert moments_of(job)[0] == "Attempt 1: has been running for 4 min"
    (attempt,) = operator("view_job").get(page_of(job)).context["attempts"]
    assert attempt.shown_worker == "machine 7"
    assert attempt.shown_duration == "4 min"


def test_cancel_says_what_it_did_and_who_asked():
    client = operator("view_job", "cancel_job")
    running, ready = make_job("RUNNING"), make_job("READY")
    asked = messages_of(client.post(url_of("cancel", running)))
    assert asked == [f"Asked tests.noop #{running.pk} to stop."]
    done = messages_of(client.post(url_of("cancel", ready)))
    assert done[-1] == f"Cancelled tests.noop #{ready.pk}."
    reasons = set(Job.objects.values_list("reason", flat=True))
    assert reasons == {f"Cancelled by {client.user.username}."}


def test_page_of_a_running_job_says_when_it_was_asked_to_stop():
    job = make_job("RUNNING", cancel_requested_at=timezone.now())
    assert "asked to cancel <time" in text_of(operator("view_job").get(page_of(job)))
