"""The admin: jobs with steps go on after them, and a step is marked as done."""

from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgjobs.models import AuditEntry, Job, Step
from tests.features.durable.bodies import done, goes_on
from tests.operators import LIST, make_job, operator, page_of, text_of, url_of

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)
seen: list[str] = []


@pytest.fixture(autouse=True)
def nothing_seen():
    seen.clear()


@pytest.fixture
def client():
    return operator("view_job", "view_job_arguments", "retry_job", "fail_job")


def note(name: str) -> str:
    seen.append(name)
    return name


def fails_behind_two_steps(job):
    job.step("count", note, "count")
    job.step("pay", note, "pay")
    note("end")
    if job.life == 1:
        raise RuntimeError


def waits_behind_a_step(job):
    job.step("count", note, "count")
    return job.wait_for("approval", int)


def failed() -> Job:
    job = done(fails_behind_two_steps)
    assert job.status == "FAILED"
    seen.clear()
    return job


def select(client, action: str, *jobs: Job, **words: str):
    selected = {"action": action, "_selected_action": [job.pk for job in jobs]}
    return client.post(LIST, {**selected, **words})


# Go on


def test_failed_job_with_steps_goes_on_first_and_begins_again_second(client):
    job = failed()
    page = text_of(client.get(page_of(job)))
    assert page.index("Go on after the last step") < page.index("From the beginning")
    assert "/retry/" in page
    assert "From the beginning" not in text_of(client.get(page_of(make_job())))
    assert "Go on" not in text_of(client.get(page_of(make_job())))


def test_rows_of_the_list_offer_the_same(client):
    plain, job = make_job(), failed()
    page = text_of(client.get(LIST))
    assert url_of("go_on", job) in page
    assert url_of("go_on", plain) not in page
    assert page.index(url_of("go_on", job)) < page.index(url_of("retry", job))


def test_confirmation_says_which_steps_are_kept_and_which_run_again(client):
    job = failed()
    page = text_of(client.get(url_of("go_on", job)))
    assert "These steps are kept: count, pay." in page
    assert "begin again" not in page
    page = text_of(client.get(url_of("retry", job)))
    assert "These steps run again: count, pay." in page


def test_confirmation_names_waits_and_sleeps_that_begin_again(client):
    def body(job):
        job.step("count", int)
        job.wait_for("approval", bool, timeout=0)
        job.sleep("cool-off", DAY)

    job = done(body)
    job.fail()
    page = text_of(client.get(url_of("go_on", job)))
    assert "These steps are kept: count." in page
    assert "These waits and sleeps begin again: approval, cool-off." in page


def test_job_goes_on_after_its_last_step(client):
    job = failed()
    response = client.post(url_of("go_on", job), {"until": ""}, follow=True)
    assert "and kept the steps done" in text_of(response)
    goes_on(job)
    assert (job.status, seen) == ("SUCCESSFUL", ["end"])
    assert AuditEntry.objects.get().act == "go_on"
    assert LogEntry.objects.count() == 1


def test_job_is_repeated_from_a_step_that_the_page_offers(client):
    job = failed()
    page = text_of(client.get(url_of("go_on", job)))
    assert '<option value="pay">pay</option>' in page
    client.post(url_of("go_on", job), {"until": "pay"})
    goes_on(job)
    assert seen == ["pay", "end"]
    assert AuditEntry.objects.get().note == "until pay"


def test_set_goes_on_and_says_which_jobs_lack_the_step(client):
    jobs = [failed(), failed()]
    Step.objects.filter(job=jobs[1].pk, name="pay").delete()
    page = text_of(select(client, "go_on_selected", *jobs))
    assert "Done steps are kept. Of these jobs, 2 have some." in page
    response = select(client, "go_on_selected", *jobs, confirmed="yes", until="pay")
    page = text_of(client.get(response["Location"]))
    assert "1 job had not done the step “pay”: it keeps all its steps." in page
    seen.clear()
    goes_on(jobs[0])
    assert sorted(seen) == ["end", "end", "pay", "pay"]


def test_set_that_begins_again_is_said_to_repeat_its_steps(client):
    page = text_of(select(client, "retry_selected", failed(), make_job()))
    assert "Done steps run again. Of these jobs, 1 have some." in page
    page = text_of(select(client, "retry_selected", make_job()))
    assert "Done steps" not in page


def test_more_jobs_than_one_request_bears_go_on_in_parts(client, monkeypatch):
    monkeypatch.setattr("pgjobs.admin.jobs.JobAdmin.most_at_once", 1)
    jobs = [failed(), failed()]
    select(client, "go_on_selected", *jobs, confirmed="yes", until="none")
    assert Job.objects.failed().count() == 1


def test_who_may_not_retry_gets_no_button_and_no_page():
    client, job = operator("view_job", "fail_job"), failed()
    assert "Go on" not in text_of(client.get(page_of(job)))
    assert client.post(url_of("go_on", job)).status_code == 403
    select(client, "go_on_selected", job, confirmed="yes")
    assert Job.objects.get(pk=job.pk).status == "FAILED"


@pytest.mark.parametrize("until", ["nothing", "x" * 201, "\0", "<b>"])
def test_hostile_step_to_repeat_from_is_kept_at_bay(client, until):
    job = failed()
    response = client.post(url_of("go_on", job), {"until": until}, follow=True)
    assert response.status_code == 200
    assert "“<b>”" not in text_of(response)


# Mark a step


def test_step_is_marked_with_a_result_and_the_job_goes_on(client):
    job = done(waits_behind_a_step)
    page = text_of(client.get(page_of(job)))
    assert "Mark step as done" in page
    page = text_of(client.get(url_of("mark_step", job)))
    assert 'value="approval"' in page
    words = {"name": "approval", "value": "42"}
    response = client.post(url_of("mark_step", job), words, follow=True)
    assert "Step: approval" in text_of(response)
    goes_on(job)
    assert (job.status, job.return_value) == ("SUCCESSFUL", 42)
    entry = AuditEntry.objects.get()
    assert (entry.act, entry.object_id, entry.note) == ("mark_step", job.pk, "approval")


def test_step_of_a_failed_job_is_marked_and_skipped_when_it_goes_on(client):
    job = failed()
    client.post(url_of("mark_step", job), {"name": "ship", "value": '{"a": 1}'})
    assert Step.objects.get(name="ship").return_value == {"a": 1}
    page = text_of(client.get(url_of("go_on", job)))
    assert "These steps are kept: count, pay, ship." in page


def test_step_that_is_done_is_not_marked_again(client):
    job = failed()
    response = client.post(url_of("mark_step", job), {"name": "pay"}, follow=True)
    assert "was not changed" in text_of(response)
    assert Step.objects.get(name="pay").return_value == "pay"
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", "1"),
        ("x" * 201, "1"),
        ("pay\0", "1"),
        ("ship", "{"),
        ("ship", "NaN"),
        ("ship", '"\\u0000"'),
        ("ship", f'"{"x" * 64_000}"'),
        ("ship", "[" * 20_000),
        ("ship", "1" * 5_000),
    ],
)
def test_bad_words_are_shown_beside_their_fields(client, name, value):
    job = failed()
    response = client.post(url_of("mark_step", job), {"name": name, "value": value})
    assert response.status_code == 200
    assert "errorlist" in text_of(response)
    assert Step.objects.count() == 2


def test_job_that_runs_has_ended_well_or_has_no_steps_offers_no_mark(client):
    for job in (make_job("RUNNING"), make_job(), done(lambda job: note("end"))):
        assert "Mark step as done" not in text_of(client.get(page_of(job)))


def test_who_may_not_fail_jobs_may_not_mark_steps():
    client, job = operator("view_job", "retry_job"), failed()
    assert "Mark step" not in text_of(client.get(page_of(job)))
    assert client.post(url_of("mark_step", job), {"name": "ship"}).status_code == 403
    assert Step.objects.count() == 2


def test_steps_cost_the_list_no_statement(client, django_assert_num_queries):
    make_job()
    client.get(LIST)
    with CaptureQueriesContext(connection) as before:
        client.get(LIST)
    failed()
    Job.objects.exclude(task="durable.plain").delete()
    with django_assert_num_queries(len(before)):
        client.get(LIST)
