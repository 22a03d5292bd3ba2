"""Why a job does not run: said in its list and on its page, with a link to the cure."""

from datetime import timedelta

import pytest
from django.utils import timezone

from pgjobs.models import Queue
from pgjobs.reports.reasons import reasons
from tests.operators import LIST, make_job, make_worker, operator, page_of, text_of

pytestmark = pytest.mark.django_db

WORKERS = "/admin/pgjobs/worker/"


@pytest.fixture
def client():
    return operator("view_job")


def queue_page(queue: Queue) -> str:
    return f"/admin/pgjobs/queue/{queue.pk}/change/"


def assert_says(client, job, text: str, link: str = "") -> None:
    for address in (LIST, page_of(job)):
        shown = text_of(client.get(address)).replace("&#x27;", "'")
        assert text in shown
        assert f'<a href="{link}"' in shown or not link


def test_ready_job_says_that_no_worker_is_alive(client):
    make_worker(lease_until=timezone.now() - timedelta(seconds=1))
    text = "no worker is alive: start one with 'manage.py runjobs'"
    assert_says(client, make_job("READY"), text, WORKERS)


def test_ready_job_says_that_no_worker_serves_its_queue(client):
    make_worker(queues="mail")
    job = make_job("READY", queue_name="reports")
    assert_says(client, job, "no worker serves the queue reports", WORKERS)


def test_ready_job_says_that_its_queue_is_paused_and_why(client):
    make_worker(queues="")
    queue = Queue.objects.create(name="mail", note="The server moves.")
    queue.pause()
    job = make_job("READY", queue_name="mail")
    assert_says(client, job, "its queue has been paused since ", queue_page(queue))
    assert_says(client, job, "(The server moves.)")


def test_ready_job_says_which_person_has_paused_its_queue():
    queue = Queue.objects.create(name="mail")
    job = make_job("READY", queue_name="mail")
    make_worker(queues="")
    permissions = ("view_job", "view_queue", "pause_queue")
    client = operator(*permissions)
    queue.pause()
    assert " by staff" not in text_of(client.get(page_of(job)))
    queue.resume()
    client.post(f"/admin/pgjobs/queue/pause/{queue.pk}/", {"note": "It moves."})
    for page in (page_of(job), "/admin/pgjobs/queue/"):
        assert f" by {client.user}" in text_of(client.get(page)), page


def test_ready_job_says_that_its_queue_runs_as_many_as_it_may(client):
    worker = make_worker(queues="")
    queue = Queue.objects.create(name="mail", max_running=1)
    job = make_job("READY", queue_name="mail")
    assert "its limit" not in text_of(client.get(LIST))
    make_job("RUNNING", queue_name="mail", worker_id=worker.pk, attempts=1)
    text = "the queue mail runs 1 job already, which is its limit"
    assert_says(client, job, text, queue_page(queue))


def test_ready_job_that_nothing_holds_back_says_how_many_come_first(client):
    make_worker(queues="")
    lower, first, second = [make_job("READY", priority=p) for p in (-5, 7, 7)]
    make_job("READY", queue_name="other")
    page = text_of(client.get(page_of(first)))
    assert "waits for a free slot; it is the next of its queue" in page
    page = text_of(client.get(page_of(second)))
    assert "waits for a free slot; 1 job of its queue comes first" in page
    assert "2 jobs of its queue come first" in text_of(client.get(page_of(lower)))


def test_scheduled_job_says_until_when_and_a_late_one_why(client):
    job = make_job("SCHEDULED")
    assert "waits for its time: " in text_of(client.get(page_of(job)))
    late = make_job("SCHEDULED", run_after=timezone.now() - timedelta(hours=1))
    assert "no worker is alive" in text_of(client.get(page_of(late)))
    make_worker(queues="")
    assert "a worker lets it run in a moment" in text_of(client.get(page_of(late)))


def test_waiting_job_of_a_paused_queue_says_so(client):
    make_worker(queues="")
    queue = Queue.objects.create(name="mail")
    queue.pause()
    job = make_job("WAITING", queue_name="mail", line="arrived")
    assert_says(client, job, "its queue has been paused since ", queue_page(queue))


def test_list_asks_the_same_few_times_however_many_jobs_are_held_back(
    client, django_assert_max_num_queries
):
    for number in range(20):
        queue = Queue.objects.create(name=f"queue-{number}", max_running=1)
        make_job("READY", queue_name=queue.name)
        make_job("SCHEDULED", queue_name=queue.name)
        make_job("WAITING", queue_name=queue.name)
    client.get(LIST)
    with django_assert_max_num_queries(16):
        client.get(LIST)


def test_running_and_finished_jobs_have_no_reason_to_wait(client):
    for status in ("RUNNING", "SUCCESSFUL", "FAILED", "CANCELLED"):
        assert "Why it does not run" not in text_of(
            client.get(page_of(make_job(status)))
        )


def test_running_job_says_that_its_worker_is_lost():
    before = timezone.now() - timedelta(minutes=5)
    lost = make_worker("gone", lease_until=before, heartbeat_at=before)
    of_lost = make_job("RUNNING", worker_id=lost.pk, attempts=1)
    of_living = make_job("RUNNING")
    page = text_of(operator("view_job", "view_worker").get(LIST))
    said = "its worker is lost; another one will rescue the job"
    assert page.count(f">{said}</") == 1
    why = reasons("default", [of_lost, of_living])
    assert list(why) == [of_lost.pk]
