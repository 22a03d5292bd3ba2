"""The page of a job: nothing twice, who did what to it, and what ran it."""

import re
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from pgjobs import enqueue, group
from pgjobs.models import AuditEntry, Job, Predecessor, Progress
from tests.operators import (
    LIST,
    make_job,
    messages_of,
    operator,
    page_of,
    text_of,
    url_of,
)
from tests.tasks import noop

pytestmark = pytest.mark.django_db
MAY_SEE = ("view_job", "view_job_arguments", "view_auditentry")


def moments_of(job, client=None) -> list[str]:
    client = client or operator(*MAY_SEE)
    return [each.text for each in client.get(page_of(job)).context["timeline"]]


def make_attempt(job, life: int, ago: int, **columns):
    began = timezone.now() - timedelta(seconds=ago)
    end = began + timedelta(seconds=1)
    values = {"outcome": "FAILED", "worker_name": "web4", "number": 1} | columns
    return job.attempts_made.create(
        life=life, started_at=began, finished_at=end, **values
    )


def old_job(status: str = "FAILED", **columns) -> Job:
    enqueued = timezone.now() - timedelta(hours=1)
    return make_job(status, enqueued_at=enqueued, **columns)


# What ran it


def test_timeline_says_which_worker_a_job_succeeded_on():
    ended = timezone.now()
    job = make_job(
        "SUCCESSFUL", attempts=1, last_attempted_at=ended, worker_name="web4"
    )
    page = text_of(operator("view_job").get(page_of(job)))
    assert re.search(r"Attempt 1: Successful after \d+ ms on web4", page)


def test_message_that_is_the_reason_is_shown_once():
    job = make_job(reason="Declined: no money")
    make_attempt(
        *(job, 1, 9), exception_class="shop.Declined", message="Declined: no money"
    )
    page = text_of(operator("view_job").get(page_of(job)))
    assert page.count("no money") == 1
    assert "<strong>shop.Declined</strong>" in page


# People


def test_timeline_and_history_say_who_retried_a_job_and_how():
    job = old_job()
    make_attempt(job, 1, 600)
    client = operator(*MAY_SEE, "retry_job", "cancel_job")
    client.post(url_of("retry", job))
    client.post(url_of("cancel", job), {"reason": "not wanted"})
    who = client.user.username
    assert f"Retry by {who}" in moments_of(job, client)
    assert f"Cancel by {who}: not wanted" in moments_of(job, client)
    history = text_of(client.get(f"{LIST}{job.pk}/history/"))
    assert f"Retry by {who}" in history


def test_act_of_a_command_is_in_timeline_and_history():
    job, other = old_job(), old_job()
    call_command("jobs", "retry", str(job.pk), verbosity=0)
    client = operator(*MAY_SEE)
    assert any(text.startswith("Retry by ") for text in moments_of(job))
    assert "(command)" in text_of(client.get(f"{LIST}{job.pk}/history/"))
    assert not any("Retry" in text for text in moments_of(other))


def test_retry_of_many_by_a_filter_is_known_by_the_new_life():
    job, other = old_job(life=2), old_job()
    make_attempt(job, 1, 600)
    make_attempt(job, 2, 60)
    make_attempt(other, 1, 600)
    for ago, actor in ((900, "too early"), (300, "ada"), (10, "too late")):
        AuditEntry.objects.create(
            at=timezone.now() - timedelta(seconds=ago),
            **{"actor": actor, "via": "page", "act": "retry", "model": "job"},
            **{"number": 9, "chosen": "Selected: all that match ?status=FAILED"},
        )
    told = [text for text in moments_of(job) if "Retry" in text]
    assert told == ["Retry by ada"]
    assert not any("Retry" in text for text in moments_of(other))


def test_selection_names_its_jobs_and_no_others():
    jobs = [old_job() for _ in range(2)]
    chosen = f"Selected: {jobs[0].pk}, {jobs[0].pk}1"
    AuditEntry.objects.create(
        actor="ada", via="page", act="delete", model="job", number=2, chosen=chosen
    )
    assert "Delete by ada" in moments_of(jobs[0])
    assert "Delete by ada" not in moments_of(jobs[1])


def test_names_of_people_are_for_those_who_may_see_the_audit_trail():
    job = old_job()
    call_command("jobs", "retry", str(job.pk), verbosity=0)
    assert "Retry by a person" in moments_of(job, operator("view_job"))
    client = operator("view_job")
    assert "(command)" not in text_of(client.get(f"{LIST}{job.pk}/history/"))


def test_request_to_cancel_is_told_once():
    job = make_job("RUNNING")
    client = operator(*MAY_SEE, "cancel_job")
    assert "Asked" in messages_of(client.post(url_of("cancel", job)))[0]
    told = [text for text in moments_of(job, client) if "ancel" in text]
    assert told == [f"Cancel by {client.user.username}"]


# The log


def test_log_is_in_the_zone_of_the_reader(settings):
    settings.TIME_ZONE = "Europe/Berlin"
    job = make_job("RUNNING")
    log = "2026-11-27 11:00:00.123+00:00 first\nno time at all\n"
    Progress.objects.create(job=job, log=log, updated_at=timezone.now())
    with timezone.override("Europe/Berlin"):
        page = text_of(operator(*MAY_SEE).get(page_of(job)))
    assert "2026-11-27 12:00:00 first\nno time at all\n" in page
    assert (
        "+00:00" not in page.partition('class="pgjobs-end"')[2].partition("</pre>")[0]
    )
    assert '<span class="quiet">(CET)</span>' in page


# Keys and pictures


def test_keys_leave_out_where_a_job_was_enqueued():
    job = make_job()
    keys = {"lock": "shop", "enqueued_in": {"cluster": 7, "transaction": 9}}
    Job.objects.filter(pk=job.pk).update(keys=keys)
    page = text_of(operator(*MAY_SEE).get(page_of(job)))
    assert "shop" in page
    assert "enqueued_in" not in page


def test_group_of_a_chain_unfolds_with_a_bar():
    batch = enqueue(group([noop.bind() for _ in range(3)]))
    done, *others = Job.objects.filter(batch=batch.pk).order_by("pk")
    done.succeed()
    last = enqueue(noop)
    Predecessor.objects.create(job_id=last.pk, batch_id=batch.pk)
    Job.objects.filter(pk=last.pk).update(keys={"lock": "x"})
    page = text_of(operator(*MAY_SEE).get(page_of(last)))
    assert '<progress value="1" max="3"' in page
    assert "1 of 3" in page
    group_of_jobs = page.partition('class="pgjobs-group"')[2].partition("</details>")[0]
    assert all(page_of(each) in group_of_jobs for each in others)
    assert page.count("pgjobs-part pgjobs-node-successful") == 1


def test_group_is_counted_up_to_a_bound(monkeypatch):
    monkeypatch.setattr("pgjobs.features.batches.graph.MOST_COUNTED", 2)
    batch = enqueue(group([noop.bind() for _ in range(3)]))
    last = enqueue(noop)
    Predecessor.objects.create(job_id=last.pk, batch_id=batch.pk)
    Job.objects.filter(pk=last.pk).update(keys={"lock": "x"})
    assert "0 of 2+" in text_of(operator(*MAY_SEE).get(page_of(last)))
