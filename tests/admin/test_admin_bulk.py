"""Bulk actions: confirmed, set-based, tolerant, logged once."""

import re

import pytest
from django.contrib import admin
from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models.signals import pre_delete
from django.test.utils import CaptureQueriesContext

from pgjobs.admin import JobAdmin
from pgjobs.models import Job
from tests.operators import (
    ALL_PERMISSIONS,
    LIST,
    STATUSES,
    insert,
    make_job,
    make_worker,
    messages_of,
    operator,
    status_of,
    text_of,
)

pytestmark = pytest.mark.django_db

NAMES = {
    "retry": "retry_selected",
    "run_now": "run_now_selected",
    "cancel": "cancel_selected",
    "fail": "fail_selected",
    "succeed": "succeed_selected",
    "delete": "delete_selected",
}
PERMISSIONS = {
    "retry": "retry_job",
    "run_now": "run_job_now",
    "cancel": "cancel_job",
    "fail": "fail_job",
    "succeed": "fail_job",
    "delete": "delete_job",
}


def choose(client, verb, jobs, query="", across=False, **data):
    """Choose the action for these jobs in the list."""
    return client.post(
        LIST + query,
        {
            "action": NAMES[verb],
            "select_across": "1" if across else "0",
            "index": "0",
            "_selected_action": [getattr(job, "pk", job) for job in jobs],
            **data,
        },
    )


def confirm(client, page, **words):
    """Post the form of the confirmation page, as a browser does."""
    text = text_of(page).split('id="content-main"')[1]
    action = re.search(r'<form method="post" action="([^"]*)"', text)[1]
    data = {}
    for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text):
        data.setdefault(name, []).append(value)
    return client.post(action.replace("&amp;", "&"), {**data, **words})


def make_many(count: int, status="FAILED", **columns) -> list[Job]:
    return [make_job(status, **columns) for _ in range(count)]


@pytest.fixture
def everything():
    return operator(*ALL_PERMISSIONS)


def test_choosing_an_action_shows_a_page_and_changes_nothing(everything):
    jobs = make_many(2)
    page = choose(everything, "retry", jobs)
    assert page.status_code == 200
    assert "2 jobs" in text_of(page)
    assert [status_of(job) for job in jobs] == ["FAILED", "FAILED"]
    assert not LogEntry.objects.exists()


def test_confirming_it_changes_the_selected_jobs_only(everything):
    jobs, other = make_many(2), make_job("FAILED")
    response = confirm(everything, choose(everything, "retry", jobs))
    assert response.status_code == 302
    assert response["Location"].startswith(LIST)
    assert [status_of(job) for job in jobs] == ["READY", "READY"]
    assert status_of(other) == "FAILED"
    assert messages_of(response) == ["Retried 2 jobs."]


@pytest.mark.parametrize(
    ("verb", "before", "after"),
    [
        ("retry", "CANCELLED", "READY"),
        ("run_now", "SCHEDULED", "READY"),
        ("cancel", "WAITING", "CANCELLED"),
        ("fail", "RUNNING", "FAILED"),
        ("succeed", "READY", "SUCCESSFUL"),
    ],
)
def test_every_act_is_a_bulk_action(verb, before, after, everything):
    jobs = make_many(2, before)
    confirm(everything, choose(everything, verb, jobs))
    assert [status_of(job) for job in jobs] == [after, after]


def test_words_of_the_operator_reach_all_jobs(everything):
    jobs = make_many(2, "READY")
    confirm(everything, choose(everything, "fail", jobs), reason="No longer wanted")
    reasons = Job.objects.values_list("reason", flat=True)
    assert set(reasons) == {"No longer wanted"}
    assert "Reason: No longer wanted" in LogEntry.objects.get().change_message


def test_a_bad_result_is_an_error_of_the_form(everything):
    jobs = make_many(2, "READY")
    page = choose(everything, "succeed", jobs)
    again = confirm(everything, page, return_value="{")
    assert "Enter valid JSON." in text_of(again)
    assert status_of(jobs[0]) == "READY"
    confirm(everything, again, return_value="{}")
    assert [status_of(job) for job in jobs] == ["SUCCESSFUL", "SUCCESSFUL"]


def test_jobs_in_another_status_are_skipped_and_counted(everything):
    jobs = [make_job(status) for status in ["FAILED", "FAILED", "READY", "RUNNING"]]
    page = choose(everything, "retry", jobs)
    assert "4 jobs" in text_of(page)
    assert text_of(page).count("skipped: the status does not allow it") == 2
    response = confirm(everything, page)
    assert messages_of(response) == [
        "Retried 2 jobs. 2 jobs were skipped: their status did not allow it, or other "
        "jobs hold their unique keys."
    ]


def test_one_is_not_called_many(everything):
    jobs = [make_job("FAILED"), make_job("READY")]
    response = confirm(everything, choose(everything, "retry", jobs))
    assert messages_of(response) == [
        "Retried 1 job. 1 job was skipped: its status did not allow it, or another job "
        "holds its unique key."
    ]


def test_what_changed_since_the_page_is_skipped(everything):
    jobs = make_many(2, "READY")
    page = choose(everything, "cancel", jobs)
    Job.objects.filter(pk=jobs[0].pk).succeed()
    response = confirm(everything, page)
    assert messages_of(response)[0].startswith("Cancelled 1 job")
    assert status_of(jobs[0]) == "SUCCESSFUL"


def test_confirming_twice_changes_nothing_more(everything):
    jobs = make_many(2)
    page = choose(everything, "retry", jobs)
    confirm(everything, page)
    response = confirm(everything, page)
    assert messages_of(response)[-1].startswith("Retried 0 jobs. 2 jobs were skipped")
    assert LogEntry.objects.count() == 1


def test_an_action_that_suits_no_job_has_no_form(everything):
    page = text_of(choose(everything, "retry", make_many(2, "READY")))
    assert "Nothing would happen" in page
    assert "confirmed" not in page


# The whole filtered set


def test_select_all_means_all_that_match_on_all_pages(everything):
    jobs = make_many(70, queue_name="mail")
    other = make_job("FAILED", queue_name="other")
    page = choose(everything, "retry", jobs[-50:], "?queue_name=mail&p=2", across=True)
    assert "All that match the filter" in text_of(page)
    assert "70 jobs" in text_of(page)
    assert text_of(page).count('name="_selected_action"') == 1
    response = confirm(everything, page)
    assert messages_of(response) == ["Retried 70 jobs."]
    assert response["Location"] == f"{LIST}?status=READY&queue_name=mail"
    assert status_of(other) == "FAILED"
    assert not Job.objects.filter(queue_name="mail", status="FAILED").exists()


def test_the_page_is_right_when_the_act_leaves_the_filter(everything):
    jobs = make_many(60)
    page = choose(everything, "retry", jobs[:50], "?status=FAILED", across=True)
    response = confirm(everything, page)
    assert messages_of(response) == ["Retried 60 jobs."]


def test_the_search_limits_what_all_means(everything):
    jobs = make_many(3, task="mail.send") + make_many(2, task="tests.noop")
    page = choose(everything, "retry", jobs[:1], "?q=mail.", across=True)
    confirm(everything, page)
    assert Job.objects.filter(status="READY").count() == 3


def test_the_queries_do_not_grow_with_the_jobs(everything):
    def queries_for(count):
        jobs = make_many(count)
        page = choose(everything, "retry", jobs[:1], "?status=FAILED", across=True)
        with CaptureQueriesContext(connection) as queries:
            confirm(everything, page)
        return len(queries)

    queries_for(2)
    assert queries_for(2) == queries_for(40)


def test_more_than_a_request_can_bear_are_done_in_parts(everything, monkeypatch):
    monkeypatch.setattr(JobAdmin, "most_at_once", 10)
    make_many(5, "READY")
    jobs = make_many(25)
    page = choose(everything, "retry", jobs[:1], across=True)
    assert "At most 10 jobs are handled at once" in text_of(page)
    for remaining in [15, 5]:
        response = confirm(everything, page)
        assert "repeat it for the others" in messages_of(response)[-1]
        assert Job.objects.failed().count() == remaining
    confirm(everything, page)
    assert Job.objects.failed().count() == 0


# Permissions and forgery


@pytest.mark.parametrize("verb", NAMES)
def test_each_action_needs_its_own_permission(verb):
    client = operator(*set(ALL_PERMISSIONS) - {PERMISSIONS[verb]})
    job = make_job("READY" if verb != "retry" else "FAILED")
    before = status_of(job)
    assert NAMES[verb] not in text_of(client.get(LIST))
    choose(client, verb, [job])
    choose(client, verb, [job], confirmed="yes")
    data = {"action": NAMES[verb], "_selected_action": job.pk, "confirmed": "yes"}
    client.post(LIST, data)
    assert status_of(job) == before


@pytest.mark.parametrize("verb", NAMES)
def test_the_permission_suffices(verb):
    client = operator("view_job", PERMISSIONS[verb])
    assert NAMES[verb] in text_of(client.get(LIST)) or not Job.objects.exists()
    job = make_job("SCHEDULED" if verb != "retry" else "FAILED")
    assert NAMES[verb] in text_of(client.get(LIST))
    confirm(client, choose(client, verb, [job]))
    assert not Job.objects.filter(pk=job.pk, status=job.status).exists()


def test_all_actions_ask_for_a_permission():
    actions = admin.site.get_model_admin(Job).actions
    assert actions and all(action.allowed_permissions for action in actions)


def test_actions_do_not_show_on_the_page_of_a_job(everything):
    job = make_job()
    assert 'name="change_form-action"' not in text_of(
        everything.get(f"{LIST}{job.pk}/change/")
    )
    data = {"change_form-action": "retry_selected", "_selected_action": job.pk}
    response = everything.post(f"{LIST}{job.pk}/change/", data)
    assert response.status_code == 403
    assert status_of(job) == "FAILED"


def test_a_bulk_action_without_token_is_refused():
    client = operator(*ALL_PERMISSIONS, enforce_csrf_checks=True)
    job = make_job()
    assert choose(client, "retry", [job], confirmed="yes").status_code == 403
    assert status_of(job) == "FAILED"


def test_an_action_in_the_address_does_nothing(everything):
    job = make_job()
    query = f"?action=retry_selected&_selected_action={job.pk}&confirmed=yes&index=0"
    assert everything.get(LIST + query).status_code == 400
    assert status_of(job) == "FAILED"


@pytest.mark.parametrize(
    "id",
    [
        "abc",
        "-1",
        "",
        "1.5",
        "99999999999999999999",
        "9" * 5000,
        "1\0",
        "\u0661",
        "1_0",
    ],
)
def test_a_selection_of_no_ids_is_refused(id, everything):
    assert choose(everything, "retry", [id]).status_code == 400


def test_selecting_nothing_says_so(everything):
    make_job()
    response = choose(everything, "retry", [])
    assert response.status_code == 302
    assert messages_of(response)[0].startswith("Items must be selected")


@pytest.mark.parametrize("action", ["", "nonsense", "retry", "\0"])
def test_an_unknown_action_changes_nothing(action, everything):
    job = make_job()
    response = choose(everything, "retry", [job], **{"action": action})
    assert response.status_code == 302
    assert status_of(job) == "FAILED"


# Deleting


def test_deleting_is_set_based_and_leaves_running_jobs(everything):
    jobs = [make_job(status) for status in STATUSES]
    running = next(job for job in jobs if job.status == "RUNNING")
    jobs[0].attempts_made.create(
        life=1, number=1, finished_at=jobs[0].enqueued_at, outcome="FAILED"
    )
    page = choose(everything, "delete", jobs)
    assert "A running job is not deleted." in text_of(page)
    response = confirm(everything, page)
    assert messages_of(response) == [
        f"Deleted {len(STATUSES) - 1} jobs. "
        "1 job was skipped: its status did not allow it."
    ]
    assert list(Job.objects.all()) == [running]
    assert LogEntry.objects.get().action_flag == DELETION


def test_deleting_does_not_read_the_jobs(everything, django_assert_max_num_queries):
    jobs = make_many(20)
    page = choose(everything, "delete", jobs)
    with CaptureQueriesContext(connection) as queries:
        confirm(everything, page)
    deletes = [each["sql"] for each in queries if "DELETE FROM" in each["sql"]]
    assert len(deletes) == 1
    assert "RUNNING" in deletes[0]
    assert not any('"pgjobs_job"."kwargs"' in each["sql"] for each in queries)


def test_receivers_of_the_delete_signals_do_not_weaken_the_guard(everything):
    worker, job = make_worker(), make_job("READY")

    # With a receiver Django's own deletion would read the rows, and then delete them by
    # id: a worker may have claimed one in between.
    def claim(instance, **kwargs):
        Job.objects.claim(worker)
        if Job.objects.filter(pk=instance.pk).exists():
            claimed.append(instance)

    claimed = []
    page = choose(everything, "delete", [job])
    pre_delete.connect(claim, sender=Job)
    try:
        confirm(everything, page)
    finally:
        pre_delete.disconnect(claim, sender=Job)
    assert not claimed
    assert not Job.objects.exists()


# The log


def test_a_bulk_act_makes_one_entry(everything):
    jobs = make_many(3)
    confirm(everything, choose(everything, "retry", jobs))
    entry = LogEntry.objects.get()
    assert entry.user == everything.user
    assert entry.content_type == ContentType.objects.get_for_model(Job)
    assert entry.object_id is None
    assert entry.object_repr == "3 jobs"
    for job in jobs:
        assert str(job.pk) in entry.get_change_message()
    assert everything.get("/admin/").status_code == 200


def test_the_entry_for_a_whole_set_names_the_filter(everything):
    jobs = make_many(3)
    page = choose(everything, "retry", jobs[:1], "?status=FAILED", across=True)
    confirm(everything, page)
    assert "?status=FAILED" in LogEntry.objects.get().change_message


def test_an_act_without_effect_is_not_logged(everything):
    jobs = make_many(2)
    page = choose(everything, "retry", jobs)
    Job.objects.retry()
    confirm(everything, page)
    assert not LogEntry.objects.exists()


def test_rows_that_python_cannot_read_can_be_acted_upon(everything):
    id = insert(args=f"'{'[' * 3000}{']' * 3000}'::jsonb")
    make_worker()
    for verb in ["fail", "retry", "cancel", "delete"]:
        response = confirm(everything, choose(everything, verb, [id]))
        assert response.status_code == 302
    assert not Job.objects.filter(pk=id).exists()
