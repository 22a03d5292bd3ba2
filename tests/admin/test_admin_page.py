"""The page of a job: everything that is known, whatever the row holds."""

import re

import pytest
from django.db import connection
from django.utils import timezone, translation

from pgjobs.models import Attempt, Job, Progress
from tests import tasks
from tests.operators import (
    STATUSES,
    insert,
    make_job,
    make_worker,
    operator,
    page_of,
    text_of,
    url_of,
)

pytestmark = pytest.mark.django_db


def make_attempt(job, number=1, life=1, **columns) -> Attempt:
    values = {
        "worker_name": "worker",
        "started_at": timezone.now(),
        "finished_at": timezone.now(),
        "outcome": "FAILED",
        "exception_class": "builtins.ValueError",
        "message": "bad",
        "traceback": "Traceback (most recent call last):\n  ...\nValueError: bad",
    }
    return Attempt.objects.create(job=job, number=number, life=life, **values | columns)


def make_progress(job, **columns) -> Progress:
    values = {"done": 1, "total": 4, "message": "", "log": ""}
    return Progress.objects.create(
        job=job, updated_at=timezone.now(), **values | columns
    )


@pytest.mark.parametrize("status", STATUSES)
def test_the_page_shows_a_job_in_any_status(status, admin_client):
    job = make_job(status, kwargs={"month": "2026-10"}, args=[7])
    page = text_of(admin_client.get(page_of(job)))
    assert f"pgjobs-{status.lower()}" in page
    assert "2026-10" in page
    assert "Unnamed arguments" in page
    assert "_save" not in page


def test_worker_of_a_successful_attempt_is_shown(admin_client):
    """Its row keeps the name: a success writes no row of an attempt."""
    now = timezone.now()
    job = make_job("SUCCESSFUL", last_attempted_at=now, worker_name="web4")
    assert " on web4" in text_of(admin_client.get(page_of(job)))


def test_a_page_costs_the_same_few_queries_however_many_attempts(
    admin_client, django_assert_max_num_queries
):
    job = make_job()
    for number in range(30):
        make_attempt(job, number)
    admin_client.get(page_of(job))
    with django_assert_max_num_queries(9):
        admin_client.get(page_of(job))


def test_arguments_and_result_are_readable(admin_client):
    job = make_job("SUCCESSFUL", kwargs={"a": [1, "é"]}, return_value={"pages": 3})
    page = text_of(admin_client.get(page_of(job))).replace("&quot;", '"')
    assert '{\n  "a": [\n    1,\n    "é"\n  ]\n}' in page
    assert '"pages": 3' in page


def test_page_says_that_the_user_may_not_see_arguments():
    client = operator("view_job")
    job = make_job(
        "SUCCESSFUL", kwargs={"a": "one"}, args=["two"], return_value={"b": "three"}
    )
    make_progress(job, message="half", log="four\n")
    page = text_of(client.get(page_of(job)))
    assert "You may not see the arguments" in page
    for hidden in ["one", "two", "three", "four"]:
        assert f"&quot;{hidden}" not in page
        assert f">{hidden}" not in page
    assert "half" in page


def test_arguments_are_not_even_read_without_the_permission(
    django_assert_max_num_queries,
):
    client = operator("view_job")
    job = make_job(kwargs={"a": "one"})
    with django_assert_max_num_queries(10) as queries:
        client.get(page_of(job))
    for query in queries:
        assert "kwargs" not in query["sql"]
        assert "return_value" not in query["sql"]


def test_secrets_are_masked_for_those_who_may_see_arguments(admin_client):
    job = make_job(
        "SUCCESSFUL",
        kwargs={"user": "ann", "password": "hunter2", "headers": {"X-Token": "abc123"}},
        args=[{"api_key": "k-9"}],
        return_value={"session": {"Secret": ["s-1"]}},
    )
    page = text_of(admin_client.get(page_of(job)))
    assert "ann" in page
    for secret in ["hunter2", "abc123", "k-9", "s-1"]:
        assert secret not in page
    assert page.count("&quot;********&quot;") == 4


@pytest.mark.parametrize("status", ["READY", "SUCCESSFUL"])
@pytest.mark.parametrize(
    "value",
    ["9" * 5000, "[" * 3000 + "]" * 3000, "1e400", '{"a": 1e-400}'],
    ids=["5000 digits", "3000 deep", "huge", "tiny"],
)
def test_a_row_that_python_cannot_read_is_shown(status, value, admin_client):
    columns = {
        "kwargs": f"jsonb_build_object('x', '{value}'::jsonb)",
        "args": f"jsonb_build_array('{value}'::jsonb)",
    }
    if status == "SUCCESSFUL":
        columns |= {
            "status": "'SUCCESSFUL'",
            "finished_at": "now()",
            "return_value": f"'{value}'::jsonb",
        }
    id = insert(**columns)
    response = admin_client.get(page_of(id))
    assert response.status_code == 200
    page = text_of(response)
    assert page.count('<pre class="pgjobs-text" tabindex="0">') == (
        3 if "return_value" in columns else 2
    )


@pytest.mark.parametrize("verb", ["cancel", "fail", "succeed"])
def test_a_row_that_python_cannot_read_can_be_acted_upon(verb, admin_client):
    id = insert(kwargs=f"""('{{"x": {"9" * 5000}}}')::jsonb""")
    assert admin_client.get(url_of(verb, id)).status_code == 200
    assert admin_client.post(url_of(verb, id)).status_code == 302
    status = Job.objects.filter(pk=id).values_list("status", flat=True).get()
    assert status in ("CANCELLED", "FAILED", "SUCCESSFUL")
    assert admin_client.post(url_of("retry", id)).status_code == 302


def test_a_text_of_ten_megabytes_is_cut(admin_client):
    big = "x" * 10_000_000
    job = make_job("FAILED", kwargs={"a": big}, args=[big], reason=big)
    make_attempt(job, message=big, traceback=big, exception_class=big, worker_name=big)
    make_progress(job, message=big, log=big)
    response = admin_client.get(page_of(job))
    page = text_of(response)
    assert response.status_code == 200
    assert len(page) < 700_000
    assert "Only the first 100000 characters are shown" in page


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7|add:7 }}",
    "</textarea></pre></details>",
    "\x1b[31mred",
    "\u202eright to left",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_takes_effect(text, admin_client):
    worker = make_worker(name=text, host=text, queues=text)
    job = make_job(
        "RUNNING",
        worker_id=worker.pk,
        attempts=1,
        task=text,
        reason=text,
        queue_name=text.replace("\x1b", ""),
        kwargs={text: text},
        args=[text],
        return_value=text,
    )
    make_attempt(
        job, worker_name=text, message=text, traceback=text, exception_class=text
    )
    make_progress(job, message=text, log=text)
    for url in [page_of(job), url_of("fail", job), url_of("retry", job)]:
        response = admin_client.get(url)
        assert response.status_code == 200
        page = without_breadcrumbs(text_of(response))
        for effect in ["<script>alert", "<img src=x", "</textarea>", "\x1b", "\u202e"]:
            assert effect not in page
        assert ">14<" not in page
    response = admin_client.post(url_of("fail", job), {"reason": text}, follow=True)
    assert "<script>alert" not in text_of(response)
    assert "<img src=x" not in text_of(response)


def without_breadcrumbs(page: str) -> str:
    # There Django writes the job's name itself: escaped, in a box of its own.
    return re.sub(r'class="breadcrumbs".*?</(?:ol|div)>', "", page, flags=re.DOTALL)


# Attempts


def test_attempts_of_all_lives_are_shown_the_latest_first(admin_client):
    job = make_job(life=2)
    make_attempt(job, 1, life=1, message="first of all")
    make_attempt(job, 2, life=1, outcome="CRASHED", traceback="", message="vanished")
    make_attempt(job, 1, life=2, started_at=None, message="the latest")
    page = text_of(admin_client.get(page_of(job)))
    places = [page.index(text) for text in ["the latest", "vanished", "first of all"]]
    assert places == sorted(places)
    assert "pgjobs-moment-crashed" in page
    assert "(life 2)" in page
    assert page.count("<summary>Traceback</summary>") == 2


def test_page_begins_with_what_an_operator_asks_first(admin_client):
    job = make_job("RUNNING", kwargs={"order_id": 87}, last_attempted_at=timezone.now())
    make_progress(job)
    page = text_of(admin_client.get(page_of(job)))
    parts = ("<dt>Status", "Progress<", "Arguments<", "Timeline<")
    places = [page.index(f"{part}") for part in (*parts, "Internals<")]
    assert places == sorted(places)


def test_class_of_an_exception_is_named_once_beside_its_message(admin_client):
    job = make_job()
    make_attempt(
        *(job, 1),
        exception_class="shop.errors.Declined",
        message="Declined: no money",
        traceback="",
    )
    page = text_of(admin_client.get(page_of(job)))
    assert "<strong>shop.errors.Declined</strong>" in page
    assert '<pre class="pgjobs-text" tabindex="0">no money</pre>' in page


def test_only_the_latest_attempts_are_shown(admin_client):
    job = make_job()
    for number in range(1, 61):
        make_attempt(job, number, message=f"message {number}.", outcome="SNOOZED")
    page = text_of(admin_client.get(page_of(job)))
    assert "message 60." in page
    assert "message 11." in page
    assert "message 10." not in page
    assert "Only the latest 50 are shown" in page


def test_a_job_without_attempts_has_only_been_enqueued(admin_client):
    context = admin_client.get(page_of(make_job("READY"))).context
    assert [moment.text for moment in context["timeline"]] == ["Enqueued"]


# Progress


def test_progress_is_a_bar_with_a_message(admin_client):
    job = make_job("RUNNING")
    make_progress(job, done=1500, total=3000, message="rows read", log="line one\n")
    page = text_of(admin_client.get(page_of(job)))
    assert '<progress value="1500" max="3000">' in page
    assert "rows read" in page
    assert "line one" in page


@pytest.mark.parametrize(
    ("done", "total", "bar"),
    [
        (5, None, None),
        (5, 0, None),
        (7, 5, 'value="5" max="5"'),
        (0.5, 1, 'value="0.5" max="1"'),
        (1_234_567.5, 2e9, 'value="1.23457e+06" max="2e+09"'),
        (float("inf"), float("inf"), None),
        (float("nan"), 5, None),
    ],
)
def test_any_progress_is_shown(done, total, bar, admin_client, settings):
    settings.USE_THOUSAND_SEPARATOR = True
    job = make_job("RUNNING")
    make_progress(job, done=done, total=total)
    with translation.override("de"):
        response = admin_client.get(page_of(job), headers={"accept-language": "de"})
    assert response.status_code == 200
    if bar is None:
        assert "<progress" not in text_of(response)
    else:
        assert f"<progress {bar}>" in text_of(response)


def test_a_log_without_progress_is_shown(admin_client):
    job = make_job("RUNNING")
    make_progress(job, done=None, total=None, log="only a line\n")
    assert "only a line" in text_of(admin_client.get(page_of(job)))


# Other columns


def test_page_links_the_worker_or_says_that_it_is_gone(admin_client):
    worker = make_worker("mine")
    job = make_job("RUNNING", worker_id=worker.pk, attempts=1)
    page = text_of(admin_client.get(page_of(job)))
    assert f'href="/admin/pgjobs/worker/{worker.pk}/change/">mine</a>' in page
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM pgjobs_worker")
    page = text_of(admin_client.get(page_of(job)))
    assert f"worker {worker.pk}, which is gone" in page


def test_page_says_that_a_task_is_unknown(admin_client):
    note = "no task of this name is known here"
    assert note in text_of(admin_client.get(page_of(make_job(task="tests.gone"))))
    assert note not in text_of(admin_client.get(page_of(make_job())))


def test_a_request_to_cancel_is_shown(admin_client):
    job = make_job("RUNNING")
    Job.objects.filter(pk=job.pk).cancel("Stop it")
    page = text_of(admin_client.get(page_of(job)))
    assert "asked to cancel" in page
    assert "Stop it" in page


def test_numbers_in_addresses_are_never_grouped(admin_client, settings):
    settings.USE_THOUSAND_SEPARATOR = True
    settings.LANGUAGE_CODE = "de"
    job = make_job("FAILED", pk=1234567)
    page = text_of(admin_client.get(page_of(job)))
    assert f"/retry/{job.pk}/" in page
    assert f"/retry/{job.pk}/" in text_of(admin_client.get("/admin/pgjobs/job/"))


def test_nothing_is_inline(admin_client):
    job = make_job("RUNNING")
    make_attempt(job)
    make_progress(job)
    for url in [page_of(job), url_of("fail", job)]:
        page = text_of(admin_client.get(url))
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", page)


def test_a_job_s_history_is_shown(admin_client):
    job = make_job()
    admin_client.post(url_of("retry", job))
    response = admin_client.get(f"/admin/pgjobs/job/{job.pk}/history/")
    assert f"Retried tests.noop #{job.pk}." in text_of(response)


def test_page_shows_what_the_job_took_along(admin_client):
    job = tasks.noop.enqueue()
    Job.objects.filter(pk=job.pk).update(meta={"tenant": "acme"})
    page = text_of(admin_client.get(page_of(job)))
    assert "Carried along from where it was enqueued" in page
    assert "acme" in page
