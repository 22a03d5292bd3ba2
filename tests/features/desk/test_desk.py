"""What operators do every day: tell jobs apart, repeat one, pause queues."""

import pytest

from pgjobs import enqueue, task
from pgjobs.features.definitions.definitions import declared, sync
from pgjobs.models import AuditEntry, Job, Queue, TaskDefinition
from pgjobs.tasks.registry import registry
from tests import tasks
from tests.operators import (
    ALL_PERMISSIONS,
    LIST,
    make_job,
    make_worker,
    messages_of,
    operator,
    page_of,
    status_of,
    text_of,
    url_of,
)

pytestmark = pytest.mark.django_db

QUEUES = "/admin/pgjobs/queue/"


def test_list_shows_the_beginning_of_the_arguments():
    make_job(kwargs={"order_id": 87, "password": "hunter2"})
    text = text_of(operator("view_job", "view_job_arguments").get(LIST))
    assert "order_id=87" in text
    assert "hunter2" not in text
    assert "order_id=" not in text_of(operator("view_job").get(LIST))


def test_list_does_not_fetch_large_arguments():
    make_job(kwargs={"text": "".join(map(str, range(20_000)))})
    assert "…" in text_of(operator("view_job", "view_job_arguments").get(LIST))


def test_search_finds_a_part_of_the_name_of_a_known_task():
    job = make_job(task="tests.noop")
    make_job(task="tests.other")
    response = operator("view_job").get(LIST, {"q": "NOO"})
    assert list(response.context["cl"].result_list) == [job]


def test_page_names_the_job_in_its_title_and_the_list_its_rows():
    job = make_job()
    client = operator("view_job")
    assert f"<h1>tests.noop #{job.pk}</h1>" in text_of(client.get(page_of(job)))
    assert f"<title>Failed: tests.noop #{job.pk} |" in text_of(client.get(page_of(job)))
    assert "<h1>Jobs</h1>" in text_of(client.get(LIST))
    assert "<title>Jobs |" in text_of(client.get(LIST))
    assert "<title>Failed: Jobs |" in text_of(client.get(f"{LIST}?status=FAILED"))


def test_row_buttons_name_their_row_for_screen_readers():
    job = make_job()
    text = text_of(operator(*ALL_PERMISSIONS).get(LIST))
    assert f'aria-label="Retry: tests.noop #{job.pk}"' in text


def test_attempt_that_succeeded_is_shown_with_its_duration():
    job = make_job("SUCCESSFUL", attempts=2)
    Job.objects.filter(pk=job.pk).update(last_attempted_at=job.finished_at)
    text = text_of(operator("view_job").get(page_of(job)))
    assert 'pgjobs-successful">Successful</span>' in text


def test_confirmation_warns_before_a_success_is_repeated():
    warning = "It has succeeded before"
    client = operator(*ALL_PERMISSIONS)
    assert warning in text_of(client.get(url_of("retry", make_job("SUCCESSFUL"))))
    assert warning not in text_of(client.get(url_of("retry", make_job("FAILED"))))


def test_confirmation_of_a_cancel_says_only_what_applies():
    client = operator(*ALL_PERMISSIONS)
    text = text_of(client.get(url_of("cancel", make_job("RUNNING"))))
    assert "The running job is asked to stop. Its task is interrupted." in text
    assert "Jobs that have not started" not in text
    assert "never does" not in text
    task(name="tests.careful", cancel="cooperative")(login)
    careful = make_job("RUNNING", task="tests.careful")
    assert "ends as usual if the task never does" in text_of(
        client.get(url_of("cancel", careful))
    )
    unknown = make_job("RUNNING", task="tests.nobody_knows")
    text = text_of(client.get(url_of("cancel", unknown)))
    assert "A running job is asked to stop" in text
    text = text_of(client.get(url_of("cancel", make_job("READY"))))
    assert "is asked to stop" not in text
    assert "Jobs that have not started" in text


# Run again


def test_successful_job_is_run_again_as_a_new_job():
    kwargs = {"order_id": 87, "password": "hunter2"}
    columns = {"task": "tests.anything", "queue_name": "slow", "priority": 7}
    job = make_job("SUCCESSFUL", kwargs=kwargs, **columns)
    client = operator("view_job", "add_job")
    assert "It has succeeded before" in text_of(client.get(url_of("run_again", job)))
    response = client.post(url_of("run_again", job), {})
    again = Job.objects.exclude(pk=job.pk).get()
    assert messages_of(response) == [f"There is job {again.pk} of tests.anything."]
    assert (again.kwargs, again.queue_name, again.priority) == (kwargs, "slow", 7)
    assert (again.status, status_of(job)) == ("READY", "SUCCESSFUL")
    assert AuditEntry.objects.get().act == "run_again"


def test_job_is_not_run_again_while_another_holds_its_key():
    job = make_job("SUCCESSFUL", task="tests.one_at_a_time")
    task(name="tests.one_at_a_time", unique=True)(idle)
    client = operator("view_job", "add_job")
    client.post(url_of("run_again", job), {})
    response = client.post(url_of("run_again", job), {})
    assert Job.objects.count() == 2
    assert "unique key" in messages_of(response)[-1]


def test_job_of_a_task_without_code_here_is_run_again_all_the_same():
    job = make_job("SUCCESSFUL", task="tests.nobody_knows", kwargs={"a": 1})
    operator("view_job", "add_job").post(url_of("run_again", job), {})
    assert Job.objects.filter(task="tests.nobody_knows", kwargs={"a": 1}).count() == 2


# Run again with changes


@pytest.fixture
def add_permissions():
    sync("default", declared())
    return ("view_job", "view_job_arguments", "add_job", "view_taskdefinition")


def link_to_run_again(page: str) -> str:
    return page.partition(">Run again with changes")[0].rpartition('href="')[2][:-1]


def test_job_is_run_again_with_changes(add_permissions):
    job = enqueue(tasks.add.using(queue_name="slow", priority=7), 41, b=2)
    client = operator(*add_permissions)
    address = link_to_run_again(text_of(client.get(page_of(job))))
    form = text_of(client.get(address))
    assert 'value="41"' in form and 'value="slow"' in form and 'value="7"' in form
    data = {"argument-a": "5", "argument-b": "2", "queue_name": "slow", "priority": "7"}
    client.post(address, data)
    again = Job.objects.exclude(pk=job.pk).get()
    assert (again.kwargs, again.queue_name) == ({"a": 5, "b": 2}, "slow")


def test_form_begins_empty_for_users_that_may_not_see_the_job(add_permissions):
    job = enqueue(tasks.add, 4711)
    definition = TaskDefinition.objects.get(name=job.task)
    address = f"/admin/pgjobs/taskdefinition/add_job/{definition.pk}/?like={job.pk}"
    client = operator("add_job", "view_taskdefinition", "view_job")
    assert "4711" not in text_of(client.get(address))
    assert "Run again with changes" not in text_of(client.get(page_of(job)))


@pytest.mark.parametrize("like", ["x", "-1", "9" * 30, "0", ""])
def test_form_for_a_job_that_is_not_there_begins_empty(like, add_permissions):
    definition = TaskDefinition.objects.get(name="tests.add")
    address = f"/admin/pgjobs/taskdefinition/add_job/{definition.pk}/?like={like}"
    assert operator(*add_permissions).get(address).status_code == 200


def test_page_of_a_job_leads_to_its_task(add_permissions):
    job = enqueue(tasks.add, 41)
    definition = TaskDefinition.objects.get(name=job.task)
    address = f"/admin/pgjobs/taskdefinition/{definition.pk}/change/"
    client = operator("view_job", "view_taskdefinition")
    assert address in text_of(client.get(page_of(job)))
    assert address not in text_of(operator("view_job").get(page_of(job)))


# Queues


def test_queue_is_paused_with_a_note():
    queue = Queue.objects.create(name="mail", note="old")
    client = operator("view_queue", "pause_queue")
    client.post(f"{QUEUES}pause/{queue.pk}/", {"note": "The server moves."})
    queue.refresh_from_db()
    assert queue.paused_at is not None
    assert queue.note == "The server moves."


def test_queues_are_paused_and_resumed_together():
    queues = [Queue.objects.create(name=name) for name in ("mail", "reports")]
    queues[0].pause()
    client = operator("view_queue", "pause_queue")
    data = {"_selected_action": [each.pk for each in queues], "confirmed": "yes"}
    response = client.post(QUEUES, data | {"action": "pause_selected"})
    assert messages_of(response)[0].startswith("1 queue is paused.")
    assert not Queue.objects.filter(paused_at=None).exists()
    response = client.post(QUEUES, data | {"action": "resume_selected"})
    assert messages_of(response)[-1] == "2 queues are resumed."


def test_list_of_queues_shows_latency_and_workers():
    make_worker(queues="mail")
    Queue.objects.create(name="mail")
    make_job("READY", queue_name="mail")
    text = text_of(operator("view_queue").get(QUEUES))
    assert 'class="field-served_by">1</td>' in text
    assert "field-oldest_ready" in text


def test_cells_of_a_list_are_labelled_for_phones():
    make_worker(queues="mail")
    Queue.objects.create(name="mail")
    text = text_of(operator("view_queue").get(QUEUES))
    assert '<td data-label="Workers" class="field-served_by">1</td>' in text


def test_masked_argument_is_not_in_the_form_and_is_run_again(add_permissions):
    task(name="tests.login")(login)
    sync("default", declared())
    job = enqueue(registry.get("tests.login"), "ada", "correct horse")
    client = operator(*add_permissions)
    address = link_to_run_again(text_of(client.get(page_of(job))))
    assert "correct horse" not in text_of(client.get(address))
    client.post(address, {"argument-user": "bob", "argument-password": ""})
    again = Job.objects.exclude(pk=job.pk).get()
    assert again.kwargs == {"user": "bob", "password": "correct horse"}


def login(user: str, password: str):
    pass


def idle():
    pass
