"""What is wrong comes first, and is the same on the overview and in `jobstatus`."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from pgjobs import enqueue
from pgjobs.features.desk import remarks
from pgjobs.features.desk.acknowledging import acknowledge, take_back
from pgjobs.features.desk.checks import check_alerts
from pgjobs.features.desk.chore import add_figures, prune_ended_workers
from pgjobs.features.desk.limits import alerts
from pgjobs.models import EndedWorker, Job, Queue, Schedule, Tick, Worker
from pgjobs.queue.statements import execute_on
from pgjobs.reports.remarks import Remark
from pgjobs.reports.status import overview
from pgjobs.sql import statement
from tests.actors import execute
from tests.operators import LIST, make_job, make_worker, operator, text_of
from tests.tasks import noop

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_schedules")]

OVERVIEW = f"{LIST}overview/"


def status(*arguments: str) -> str:
    output = StringIO()
    call_command("jobstatus", *arguments, stdout=output, no_color=True)
    return output.getvalue()


def check() -> str:
    """Return what `jobstatus --check` says when it fails."""
    with pytest.raises(CommandError) as raised:
        status("--check")
    assert raised.value.returncode == 1
    return str(raised.value)


def of_kind(kind: str) -> list[Remark]:
    return [each for each in overview("default").remarks if each.kind == kind]


def age(seconds: int) -> None:
    """Make all jobs older."""
    execute(
        "UPDATE pgjobs_job SET enqueued_at = enqueued_at - %(age)s * interval '1s',"
        " run_after = run_after - %(age)s * interval '1s'",
        {"age": seconds},
    )


def serving(**columns) -> Worker:
    return make_worker("web1", **{"queues": "", **columns})


def end(worker: Worker, how: str, minutes: float = 2) -> None:
    """Let a worker end, some minutes ago; "lost" as the rescue deletes it."""
    if how == "lost":
        worker.delete()
    else:
        execute(statement("leave"), {"id": worker.pk, "how": how})
    execute("SET LOCAL pgjobs.ends = ''")
    ended = EndedWorker.objects.latest("id")
    ended.ended_at = timezone.now() - timedelta(minutes=minutes)
    ended.save()


def count(task: str = "tests.noop", *, successful: int = 0, failed: int = 0) -> None:
    """Count ends of attempts, as a worker does."""
    for _ in range(min(failed, 5)):
        make_job("FAILED", task=task)
    row = {"queue_name": "default", "task": task, "seconds": 1.0, "cancelled": 0}
    row |= {"successful": successful, "failed": failed, "retried": 0}
    add_figures(execute_on("default"), [{**row, "run_buckets": [], "wait_buckets": []}])


# Workers


def test_check_names_a_queue_that_no_worker_serves():
    serving(excluded="default")
    enqueue(noop)
    assert status("--check") == "No problems.\n"
    age(90)
    assert check() == "Queue default has 1 job to run, but no worker serves it."
    Queue.objects.create(name="default").pause()
    assert status("--check") == "No problems.\n"


def test_check_names_a_queue_whose_jobs_no_worker_will_admit():
    serving(queues="mail,news")
    enqueue(noop.using(lock="door"))
    age(90)
    assert "1 job to run, but no worker serves it" in check()


def test_check_is_content_when_a_living_worker_serves_the_queue():
    serving(queues="default")
    enqueue(noop)
    age(90)
    assert status("--check") == "No problems.\n"


def test_many_queues_without_a_worker_are_counted():
    for number in range(8):
        enqueue(noop.using(queue_name=f"queue-{number}"))
    serving(queues="elsewhere")
    age(90)
    lines = check().splitlines()
    assert len(lines) == 6
    assert lines[-1] == ("3 more queues have jobs to run, but no worker serves them.")


def test_check_fails_when_scheduled_jobs_are_overdue():
    enqueue(noop.using(run_after=timedelta(seconds=5)))
    age(90)
    assert "1 scheduled job is overdue" in check()


def test_check_fails_when_a_dead_workers_job_is_not_rescued():
    worker = serving()
    enqueue(noop)
    Job.objects.claim(worker)
    assert status("--check") == "No problems.\n"
    Worker.objects.update(lease_until=timezone.now() - timedelta(seconds=100))
    assert "1 running job has a dead worker" in check()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("lost", "was lost 2 min ago."),
        ("asked", "was asked to stop 2 min ago."),
        ("memory", "stopped 2 min ago, for its memory."),
    ],
)
def test_first_problem_is_that_no_worker_lives_and_how_the_last_one_ended(how, said):
    end(serving(), how)
    enqueue(noop)
    age(90)
    assert check().splitlines()[0] == f"No worker is alive. The last one, web1, {said}"


def test_worker_that_nobody_has_buried_is_named_too():
    serving(
        lease_until=timezone.now() - timedelta(minutes=4),
        heartbeat_at=timezone.now() - timedelta(minutes=5),
    )
    enqueue(noop)
    age(90)
    assert "The last one, web1, was lost 5 min ago." in check().splitlines()[0]


def test_no_worker_is_a_problem_while_jobs_ended_within_a_day():
    assert of_kind("no_worker") == []
    count(successful=1)
    (remark,) = of_kind("no_worker")
    assert remark.text == "No worker is alive. Start one with: manage.py runjobs"


def test_no_worker_is_no_problem_where_the_last_one_has_drained():
    end(serving(), "drained")
    count(successful=1)
    assert of_kind("no_worker") == []


def test_no_worker_is_no_problem_for_the_first_minute():
    end(serving(), "asked", minutes=0.5)
    count(successful=1)
    assert of_kind("no_worker") == []


def test_lost_worker_is_a_remark_and_three_in_an_hour_are_a_problem():
    for number in range(3):
        assert of_kind("workers_lost") == []
        worker = make_worker(f"web{number}")
        end(worker, "lost", minutes=10 - number)
    serving()
    (remark,) = of_kind("workers_lost")
    assert remark.text == "3 workers were lost in the last hour: web2, web1, web0."
    assert of_kind("worker_lost") == []
    EndedWorker.objects.filter(name="web1").update(
        ended_at=timezone.now() - timedelta(minutes=61)
    )
    (remark,) = of_kind("worker_lost")
    assert remark.text == "2 workers were lost in the last hour: web2, web0."
    assert "Remark: 2 workers were lost" in status("--check")


def test_worker_that_came_back_was_not_lost():
    worker = serving()
    pk = worker.pk
    worker.delete()
    serving(id=pk)
    assert of_kind("worker_lost") == []


def test_ended_workers_are_kept_for_a_day_and_no_more_than_a_thousand(monkeypatch):
    monkeypatch.setattr("pgjobs.features.desk.chore.MOST_ENDED_WORKERS", 2)
    for hours in (25, 3, 2, 1):
        end(make_worker(f"{hours} h"), "asked", minutes=60 * hours)
    acknowledge("default", "no_worker", "", "anna", timezone.now())
    assert prune_ended_workers(execute_on("default")) == 2
    names = EndedWorker.objects.order_by("-ended_at").values_list("name", flat=True)
    assert list(names) == ["1 h", "2 h"]


def test_run_in_the_callers_process_is_no_ended_worker():
    from pgjobs.testing import run_jobs

    enqueue(noop)
    run_jobs()
    assert not EndedWorker.objects.exists()


# Tasks, schedules, queues


def test_task_of_which_half_failed_in_the_last_hour_is_a_problem():
    serving()
    count(successful=5, failed=4)
    assert of_kind("task_fails") == []
    count(failed=1)
    assert check() == (
        "Task tests.noop: 5 of 10 jobs that ended in the last hour have failed (50%)."
    )
    count(successful=2)
    assert of_kind("task_fails") == []


def test_failures_of_an_hour_ago_are_no_problem():
    serving()
    count(failed=20)
    execute(
        "UPDATE pgjobs_figure SET start = start - interval '61 minutes' WHERE span = 1"
    )
    assert of_kind("task_fails") == []


def ran(schedule: Schedule, *statuses: str) -> None:
    """Let a schedule have such runs, the first one first."""
    for status in statuses:
        job = make_job(status)
        Tick.objects.create(schedule=schedule, time=timezone.now(), job=job)
        Schedule.objects.filter(pk=schedule.pk).update(last_job=job)


def test_schedule_whose_last_three_runs_failed_is_a_problem():
    serving()
    schedule = Schedule.objects.create(
        name="nightly", task="tests.noop", cron="0 3 * * *"
    )
    ran(schedule, "FAILED", "SUCCESSFUL", "FAILED", "FAILED")
    assert of_kind("schedule_fails") == []
    ran(schedule, "FAILED")
    text = "The last 3 runs of schedule nightly have failed."
    assert check() == text
    ran(schedule, "READY")
    assert check() == text
    ran(schedule, "SUCCESSFUL")
    assert status("--check") == "No problems.\n"


def test_schedule_is_late_after_five_minutes():
    serving()
    schedule = Schedule.objects.create(
        name="often", task="tests.noop", every=timedelta(minutes=10)
    )
    for minutes, is_late in ((4, False), (6, True)):
        due = timezone.now() - timedelta(minutes=minutes)
        Schedule.objects.filter(pk=schedule.pk).update(next_run_at=due)
        assert bool(of_kind("schedule_late")) is is_late


def test_queue_that_has_been_paused_for_an_hour_is_a_remark():
    queue = Queue.objects.create(name="mail", note="The server moves.")
    queue.pause()
    assert of_kind("queue_paused") == []
    Queue.objects.update(paused_at=timezone.now() - timedelta(minutes=90))
    text = "Queue mail has been paused for 90 min. The server moves."
    assert status("--check") == f"No problems.\nRemark: {text}\n"


# The setting


def test_level_and_limit_of_a_kind_can_be_set(settings):
    queue = Queue.objects.create(name="mail")
    queue.pause()
    Queue.objects.update(paused_at=timezone.now() - timedelta(minutes=90))
    settings.PGJOBS = {"ALERTS": {"queue_paused": "problem"}}
    assert check() == "Queue mail has been paused for 90 min."
    settings.PGJOBS = {"ALERTS": {"queue_paused": timedelta(hours=2)}}
    assert of_kind("queue_paused") == []
    settings.PGJOBS = {
        "ALERTS": {"queue_paused": {"value": 60, "level": "problem"}},
    }
    assert "mail" in check()
    settings.PGJOBS = {"ALERTS": {"queue_paused": "off"}}
    assert status("--check") == "No problems.\n"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"queue_pausd": 1}, "PGJOBS['ALERTS'] has no kind 'queue_pausd'."),
        ({"queue_paused": "loud"}, "must have a level of problem, remark, off"),
        ({"queue_paused": {"limit": 1}}, "knows 'level' and 'value', but not 'limit'"),
        ({"task_fails": 50}, "must be more than 0, and 1 at most, got 50."),
        ({"dead_letters": 5}, "has no limit, only a level"),
        ({"no_worker": -1}, "PGJOBS['ALERTS']['no_worker'] must be"),
    ],
)
def test_wrong_setting_is_refused_by_its_name(given, message, settings):
    settings.PGJOBS = {"ALERTS": given}
    (error,) = check_alerts()
    assert message in error.msg
    assert error.id == "pgjobs.E066"


def test_wrong_limit_is_told_when_it_is_needed(settings):
    settings.PGJOBS = {"ALERTS": {"task_fails": "half"}}
    with pytest.raises(ImproperlyConfigured, match="task_fails"):
        overview("default")


def test_kinds_have_names_of_their_own_and_values_that_they_accept():
    for alert in alerts().values():
        assert alert.read is None or alert.read(alert.value) == alert.value
    assert next(iter(alerts())) == "no_worker"


# Acknowledgements


def test_acknowledged_problem_counts_no_more_until_the_time_is_over():
    serving()
    count(failed=10)
    count("tests.add", failed=10)
    until = timezone.now() + timedelta(hours=4)
    acknowledge("default", "task_fails", "tests.noop", "anna", until, "known bug")
    assert "tests.noop" not in check().splitlines()[0]
    assert "Acknowledged: Task tests.noop" in check()
    assert "(seen by anna, until " in check() and "known bug)" in check()
    assert take_back("default", "task_fails", "tests.noop")
    assert len(overview("default").problems) == 2
    acknowledge("default", "task_fails", "tests.noop", "anna", timezone.now())
    assert len(overview("default").problems) == 2


def test_json_has_the_kind_and_level_of_each():
    serving()
    count(failed=10)
    (remark,) = json.loads(status("--json"))["remarks"]
    assert remark["kind"] == "task_fails" and remark["level"] == "problem"
    assert remark["subject"] == "tests.noop" and remark["acknowledged"] == ""


# Faults and costs


def test_kind_that_cannot_be_looked_for_is_a_problem_and_hides_no_other(monkeypatch):
    def broken(seen, value):
        execute("SELECT 1 / 0")
        yield

    count(failed=10)
    serving()
    kinds = alerts()
    alert = kinds["queue_paused"]._replace(look=broken)
    monkeypatch.setitem(kinds, "queue_paused", alert)
    texts = overview("default").problems
    assert any("Task tests.noop" in text for text in texts)
    assert any(
        "cannot look for queue_paused: division by zero" in text for text in texts
    )


def test_statement_timeout_of_the_caller_stays():
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '77s'")
        overview("default")
        cursor.execute("SHOW statement_timeout")
        assert cursor.fetchone() == ("77s",)
    assert remarks.HURRY


def test_overview_shows_problems_first_and_remarks_below():
    serving()
    count(failed=10)
    queue = Queue.objects.create(name="mail")
    queue.pause()
    Queue.objects.update(paused_at=timezone.now() - timedelta(hours=2))
    text = text_of(operator("view_job", "view_queue", "view_worker").get(OVERVIEW))
    problem, remark = (
        text.index("Task tests.noop: 10 of 10"),
        text.index("Queue mail has"),
    )
    assert problem < remark


def test_problem_is_acknowledged_on_its_page():
    serving()
    count(failed=10)
    client = operator("view_job", "acknowledge_remark", "view_auditentry")
    page = text_of(client.get(OVERVIEW))
    address = f"{LIST}remarks/acknowledge/?kind=task_fails&subject=tests.noop"
    assert address.replace("&", "&amp;") in page
    assert "This share" not in page
    shown = text_of(client.get(address))
    assert "Task tests.noop: 10 of 10" in shown and "it does not count" in shown
    assert client.post(address, {"hours": "5"}).status_code == 200  # no such choice
    response = client.post(address, {"hours": "4", "note": "known bug"}, follow=True)
    text = text_of(response)
    assert "Acknowledged: task_fails tests.noop." in text
    assert f"(seen by {client.user.get_username()}, until" in text
    assert "No problems." in text and "known bug" in text
    client.post(address, {"hours": "0"})
    assert len(overview("default").problems) == 1


def test_acknowledging_needs_its_permission_and_a_known_kind():
    address = f"{LIST}remarks/acknowledge/?kind=task_fails"
    assert operator("view_job").get(address).status_code == 403
    client = operator("view_job", "acknowledge_remark")
    assert client.get(address).status_code == 200
    assert client.get(f"{LIST}remarks/acknowledge/?kind=other").status_code == 404
    assert client.get(f"{address}&subject={'x' * 501}").status_code == 404
    assert client.get(f"{address}&subject=%00").status_code == 404


# Ended workers


def test_ended_workers_are_listed_with_how_they_ended():
    end(make_worker("web1", queues="mail"), "lost")
    end(make_worker("web2", queues=""), "memory")
    client = operator("view_worker")
    text = text_of(client.get("/admin/pgjobs/endedworker/"))
    assert "Lost</span>" in text and "Too much memory</span>" in text
    assert text.index("web2") < text.index("web1") or "web1" in text
    text = text_of(client.get("/admin/pgjobs/endedworker/?how__exact=lost"))
    assert "web1" in text and "web2" not in text
    pk = EndedWorker.objects.get(name="web1").pk
    page = text_of(client.get(f"/admin/pgjobs/endedworker/{pk}/change/"))
    assert "web1" in page and "mail" in page
    assert operator("view_job").get("/admin/pgjobs/endedworker/").status_code == 403
