"""The overview of the admin, and failed jobs grouped by their errors."""

import re
import zlib
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pgjobs import enqueue, publish
from pgjobs.features.desk.errors import failures
from pgjobs.features.overrides.queue import Wish, set_override
from pgjobs.models import (
    Delivery,
    EndedWorker,
    ErrorGroup,
    Figure,
    Job,
    Predecessor,
    Queue,
    Schedule,
    Wait,
)
from pgjobs.testing import run_jobs
from tests.actors import admit
from tests.operators import LIST, make_job, make_worker, operator, text_of
from tests.tasks import fail_with, noop

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_schedules")]

OVERVIEW = "/admin/pgjobs/overview/"
ALL = ("view_job", "view_queue", "view_worker", "view_schedule", "view_event")


def group_of(exception_class: str, task: str = "tests.noop") -> ErrorGroup:
    id = zlib.crc32(f"{exception_class} {task}".encode())
    values = {"task": task, "exception_class": exception_class}
    values |= {"place": "shop.views.pay", "message": "It broke."}
    return ErrorGroup.objects.get_or_create(id=id, defaults=values)[0]


def failed_of(exception_class: str, task: str = "tests.noop", **columns) -> Job:
    """Make a job that failed as a worker records it."""
    columns["error_group"] = group_of(exception_class, task).pk
    return make_job("FAILED", task=task, attempts=1, reason="It broke.", **columns)


def figure(**columns) -> Figure:
    now = timezone.now().replace(second=0, microsecond=0)
    return Figure.objects.create(span=1, start=now, queue_name="default", **columns)


def test_overview_says_that_there_are_no_problems():
    text = text_of(operator(*ALL).get(OVERVIEW))
    assert "No problems." in text
    assert "No worker is alive. Start one with: manage.py runjobs" in text


def test_overview_names_problems_with_links():
    make_job("READY", enqueued_at=timezone.now() - timedelta(hours=1))
    text = text_of(operator(*ALL).get(OVERVIEW))
    problem = "Queue default has 1 job to run, but no worker serves it."
    assert f'<a href="/admin/pgjobs/worker/">{problem}</a>' in text
    assert "no worker</span>" in text


@pytest.mark.parametrize("page", ["/admin/", "/admin/pgjobs/", LIST])
def test_overview_is_an_entry_among_the_models(page):
    entry = re.compile(rf'<a href="{OVERVIEW}"[^>]*>Overview</a>')
    assert entry.search(text_of(operator("view_job").get(page)))


def test_overview_is_no_entry_for_who_may_not_view_jobs():
    client = operator("view_queue")
    assert OVERVIEW not in text_of(client.get("/admin/"))
    assert client.get(OVERVIEW).status_code == 403


def test_overview_is_still_where_it_was():
    page = text_of(operator("view_job").get(f"{LIST}overview/"))
    assert "No problems." in page


def test_overview_shows_queues_with_counts_latency_limit_and_pause():
    make_worker("first", queues="mail")
    queue = Queue.objects.create(name="mail", max_running=7, note="The server moves.")
    queue.pause()
    now = timezone.now()
    make_job("READY", queue_name="mail", enqueued_at=now - timedelta(minutes=5))
    make_job("READY", queue_name="mail")
    text = text_of(operator(*ALL).get(OVERVIEW))
    assert f'href="/admin/pgjobs/queue/{queue.pk}/change/">mail</a>' in text
    assert "?queue_name=mail&amp;status=READY" in text
    assert ">5 min</td>" in text
    assert '<td data-label="Limit">7</td>' in text
    assert "The server moves." in text
    assert ">first</a>" in text


def test_overview_shows_the_memory_of_workers_and_what_they_run():
    worker = make_worker("first", queues="", memory=3 << 20)
    make_worker("second", queues="")
    began = timezone.now() - timedelta(minutes=4)
    jobs = [
        make_job("RUNNING", worker_id=worker.pk, attempts=1, last_attempted_at=began)
        for _ in range(5)
    ]
    text = text_of(operator(*ALL).get(OVERVIEW))
    assert ">3.0\xa0MB</td>" in text
    for job in jobs[:3]:
        assert f'/{job.pk}/change/">tests.<wbr>noop #{job.pk}</a> <time' in text
    assert f"/{jobs[3].pk}/change/" not in text
    assert "4 min ago</time>" in text
    assert "and 2 more" in text


def test_overview_shows_schedules_that_failed_and_no_others():
    for name in ("good", "bad"):
        Schedule.objects.create(name=name, task="tests.noop", cron="0 3 * * *")
    Schedule.objects.filter(name="bad").update(last_job=make_job("FAILED"))
    text = text_of(operator(*ALL).get(OVERVIEW))
    assert ">bad</a>" in text
    assert ">good</a>" not in text


def test_overview_needs_the_permission_to_view_jobs():
    assert operator("view_queue").get(OVERVIEW).status_code == 403
    assert operator("view_job").get(OVERVIEW).status_code == 200


def test_overview_has_no_links_to_what_the_user_may_not_view():
    make_worker("first", queues="")
    queue = Queue.objects.create(name="mail", max_running=7)
    make_job("READY", queue_name=queue.name)
    text = text_of(operator("view_job").get(OVERVIEW))
    assert "mail" in text
    assert "/admin/pgjobs/queue/" not in text
    assert "/admin/pgjobs/worker/" not in text


def test_overview_is_linked_from_the_app_and_from_each_list():
    client = operator(*ALL)
    lists = ("job", "queue", "worker", "schedule", "event")
    for address in ("", *(f"{name}/" for name in lists)):
        page = text_of(client.get(f"/admin/pgjobs/{address}"))
        assert f'href="{OVERVIEW}"' in page, address
    assert OVERVIEW not in text_of(operator("view_queue").get("/admin/pgjobs/queue/"))


def test_overview_shows_any_text_and_nothing_takes_effect():
    hostile = '<script>alert(1)</script>"><img>\u202e'
    make_worker(hostile, queues="")
    Queue.objects.create(name=hostile, max_running=1, note=hostile).pause()
    failed_of(hostile, task=hostile)
    text = text_of(operator(*ALL).get(OVERVIEW))
    assert "<script>alert" not in text and '"><img>' not in text
    assert "\u202e" not in text


MOST_STATEMENTS = 60  # also with something of everything


def fill_everything() -> None:
    """Make rows of all that the overview has a section or a remark for."""
    for number in range(20):
        name = f"queue-{number}"
        queue = Queue.objects.create(name=name, max_running=1, note="It moves.")
        queue.pause()
        for status in ("RUNNING", "READY", "SCHEDULED"):
            make_job(status, queue_name=name)
        make_job("WAITING", keys={"lock": name}, line=f"lock {name}")
        follower = make_job("WAITING", waiting_for="predecessor", line="linked")
        Predecessor.objects.create(
            job_id=follower.pk, predecessor_id=make_job("READY").pk
        )
        failed_of(f"Error{number}")
        failed = make_job("FAILED")
        values = {"task": "tests.noop", "cron": "0 3 * * *", "last_job": failed}
        Schedule.objects.create(name=name, **values)
        event = publish(f"lost.{number}", {})
        Delivery.objects.create(event=event, job=failed, task="tests.noop")
        asking = make_job("WAITING", waiting_for="answer", keys=None)
        asked = {"title": "Refund?", "type": "boolean"}
        permission = "pgjobs.answer_job"
        Wait.objects.create(
            job=asking,
            life=1,
            name="refund",
            kind="answer",
            asked=asked,
            permission=permission,
            deadline=timezone.now() + timedelta(days=1),
        )
        EndedWorker.objects.create(
            worker_id=number, pid=1, how="lost", name=name, started_at=timezone.now()
        )
    ErrorGroup.objects.filter(exception_class="Error1").update(muted_version="")
    call_command("pausejobs", "mail", verbosity=0)


def test_overview_costs_the_same_few_statements_however_much_there_is():
    client = operator(*ALL, "answer_job", "view_auditentry", "view_job_arguments")
    fill_everything()
    client.get(OVERVIEW)
    with CaptureQueriesContext(connection) as statements:
        page = text_of(client.get(OVERVIEW))
    for title in ("Waits for you", "Muted errors", ">Waiting ", "Activity"):
        assert title in page
    said = "\n".join(each["sql"][:200] for each in statements)
    assert len(statements) <= MOST_STATEMENTS, said


def jobs_with_lock() -> tuple[Job, Job]:
    """Return a job that may run, and one that waits for its lock."""
    make_worker("first", queues="")
    first, second = (noop.using(lock="erp 7").enqueue() for _ in range(2))
    admit()
    return first, second


def test_what_waits_leads_to_its_jobs_and_to_the_first_one():
    holder, waiting = jobs_with_lock()
    client = operator(*ALL, "view_job_arguments")
    page = text_of(client.get(OVERVIEW))
    listed = f"{LIST}?status=WAITING&amp;q=lock%3A%22erp%207%22"
    assert f'<a href="{listed}">erp 7</a>' in page.replace("+", "%20")
    assert f'<a href="{listed}">1</a>' in page.replace("+", "%20")
    assert f'<a href="{LIST}{holder.pk}/change/">waits for job {holder.pk}</a>' in page
    found = client.get(LIST, {"status": "WAITING", "q": 'lock:"erp 7"'})
    assert list(found.context["cl"].result_list) == [waiting]


def test_lock_that_the_user_may_not_see_leads_to_all_that_waits():
    jobs_with_lock()
    page = text_of(operator(*ALL).get(OVERVIEW))
    assert "erp 7" not in page
    assert f'<a href="{LIST}?status=WAITING">a lock</a>' in page


def test_error_and_failures_of_a_task_lead_to_their_jobs():
    failed_of("shop.Gone")
    figure(task="tests.noop", failed=3, successful=1)
    page = text_of(operator(*ALL).get(OVERVIEW))
    group = group_of("shop.Gone").pk
    listed = f"{LIST}?status=FAILED&amp;group={group}"
    assert f'<a href="{listed}">shop.<wbr>Gone</a>' in page
    listed = f"{LIST}?task=tests.noop&amp;status=FAILED"
    assert f'<a href="{listed}">3 (75%)</a>' in page


def test_section_without_rows_is_one_line_with_a_link():
    page = text_of(operator(*ALL).get(OVERVIEW))
    assert '"/admin/pgjobs/queue/">Queues</a>: No unfinished jobs.' in page


# Errors


def test_failed_jobs_are_grouped_by_exception_and_task():
    now = timezone.now()
    first = failed_of("shop.Gone", finished_at=now - timedelta(minutes=125))
    last = failed_of("shop.Gone")
    failed_of("shop.Gone", task="tests.other")
    make_job("FAILED")
    groups = {(each.task, each.exception_class): each for each in failures("default")}
    assert len(groups) == 3
    group = groups["tests.noop", "shop.Gone"]
    assert (group.number, group.failed_now) == (2, 2)
    assert (group.last_at, group.reason) == (last.finished_at, "It broke.")
    assert group.by_hour[-1] == 1 and group.by_hour[-3] == 1
    assert first.finished_at < group.last_at
    assert groups["tests.noop", ""].number == 1


def test_worker_puts_failures_that_differ_in_their_values_into_one_group():
    for number in (4_711, 815):
        enqueue(fail_with, f"order {number} of 'Ada {number}'")
    enqueue(fail_with, "another order")
    run_jobs(raise_errors=False)
    group, other = failures("default")
    assert (group.number, other.number) == (2, 1)
    assert group.exception_class == other.exception_class == "ValueError"
    assert group.kind.place == "tests.tasks.fail_with"
    assert group.kind.message == "ValueError: order # of #"


def test_job_that_is_retried_and_failed_by_hand_leaves_its_group():
    job = failed_of("shop.Gone")
    job.retry()
    job.fail()
    assert [each.exception_class for each in failures("default")] == [""]


def test_muted_group_returns_with_a_new_version():
    failed_of("shop.Gone")
    group = group_of("shop.Gone")
    client = operator(*ALL, "mute_errorgroup")
    url = f"{LIST}errors/{group.pk}/mute/"
    assert url in text_of(client.get(OVERVIEW))
    assert "Jobs go on failing" in text_of(client.get(url))
    assert not failures("default")[0].is_muted
    assert client.post(url).status_code == 302
    assert failures("default")[0].is_muted
    assert "Muted errors" in text_of(client.get(OVERVIEW))
    ErrorGroup.objects.filter(pk=group.pk).update(version="2.0")
    assert not failures("default")[0].is_muted
    assert "Muted errors" not in text_of(client.get(OVERVIEW))


def test_muting_needs_its_permission():
    failed_of("shop.Gone")
    client = operator(*ALL)
    url = f"{LIST}errors/{group_of('shop.Gone').pk}/mute/"
    assert url not in text_of(client.get(OVERVIEW))
    assert client.get(url).status_code == client.post(url).status_code == 403


def test_group_is_retried_from_the_overview():
    """Open the overview, press the button, confirm: three clicks from the start."""
    jobs = [failed_of("shop.Gone") for _ in range(3)]
    failed_of("shop.Late")
    client = operator(*ALL, "retry_job")
    form = re.search(
        r'<form class="pgjobs-act" method="post" action="([^"]*group='
        rf'{group_of("shop.Gone").pk}[^"]*)">(.*?)</form>',
        text_of(client.get(OVERVIEW)),
    )
    address = form[1].replace("&amp;", "&")
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form[2]))
    page = text_of(client.post(address, fields))
    assert "3 jobs" in page
    assert not Job.objects.ready().exists()
    client.post(address, {**fields, "confirmed": "yes"})
    assert set(Job.objects.ready()) == set(jobs)


def test_group_leads_to_the_list_of_its_jobs():
    inside, other = failed_of("shop.Gone"), failed_of("shop.Late")
    by_hand = make_job("FAILED")
    client = operator(*ALL)
    query = f"status=FAILED&amp;group={group_of('shop.Gone').pk}"
    text = text_of(client.get(OVERVIEW))
    assert query in text
    assert f'<a href="{LIST}?task=tests.noop">' in text  # where others may still wait

    def listed(error):
        shown = client.get(LIST, {"status": "FAILED", "error": error})
        return list(shown.context["cl"].result_list)

    assert listed("shop.Gone") == [inside]
    assert listed("shop.Late") == [other]
    assert listed("-") == [by_hand]
    assert listed("nothing.Such") == []


def test_filter_by_error_is_offered_among_failed_jobs_only():
    failed_of("shop.Gone")
    client = operator("view_job")
    offer = '<option value="shop.Gone">'
    assert offer in text_of(client.get(LIST, {"status": "FAILED"}))
    assert offer not in text_of(client.get(LIST))
    assert client.get(LIST, {"error": "a\0b"}).status_code == 302


def test_all_jobs_of_a_group_are_retried_together():
    jobs = [failed_of("shop.Gone") for _ in range(3)]
    other = failed_of("shop.Late")
    data = {
        "action": "retry_selected",
        "select_across": "1",
        "_selected_action": jobs[0].pk,
        "confirmed": "yes",
    }
    client = operator("view_job", "retry_job")
    client.post(f"{LIST}?status=FAILED&error=shop.Gone", data)
    assert Job.objects.ready().count() == 3
    assert list(Job.objects.failed()) == [other]


# What people did


def test_overview_shows_what_people_did_to_those_who_may_see_it():
    call_command("pausejobs", "mail", "--note", "<b>It moves.</b>", verbosity=0)
    address = f"{LIST}overview/"
    assert "What people did" not in text_of(operator("view_job").get(address))
    page = text_of(operator("view_job", "view_auditentry").get(address))
    assert re.search(
        r'<a href="/admin/pgjobs/auditentry/\d+/change/">pause queue', page
    )
    assert '"/admin/pgjobs/auditentry/">Show all</a>' in page
    assert "&lt;b&gt;It moves." in page and "<b>It moves." not in page


def test_overview_says_what_people_changed_at_run_time():
    wish = Wish(paused=True, until=timezone.now() + timedelta(hours=1))
    set_override("default", "task", "tests.noop", wish, "ada", "page")
    page = text_of(operator("view_job", "view_auditentry").get(OVERVIEW))
    assert ">change at run time</a>" in page and "override #" not in page
    assert re.search(r"task tests\.noop: paused, until [\d-]{10} [\d:]{5} UTC<", page)


def test_overview_says_which_person_has_paused_a_queue():
    queue = Queue.objects.create(name="mail")
    client = operator("view_job", "view_queue", "pause_queue")
    client.post(f"/admin/pgjobs/queue/pause/{queue.pk}/", {"note": "It moves."})
    assert f" by {client.user}" in text_of(client.get(f"{LIST}overview/"))
