"""jobstatus, prunejobs and enqueuejob; runjobs has tests of its own."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Job, Worker
from tests.tasks import add, noop

pytestmark = pytest.mark.django_db


def run(name: str, *arguments: str) -> str:
    output = StringIO()
    call_command(name, *arguments, stdout=output, no_color=True)
    return output.getvalue()


def refused(name: str, *arguments: str) -> CommandError:
    with pytest.raises(CommandError) as raised:
        call_command(name, *arguments, stdout=StringIO(), stderr=StringIO())
    return raised.value


def age(seconds: int) -> None:
    """Make all jobs older."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pgjobs_job SET enqueued_at = enqueued_at - %(age)s * interval '1s',"
            " run_after = run_after - %(age)s * interval '1s',"
            " finished_at = finished_at - %(age)s * interval '1s'",
            {"age": seconds},
        )


def make_worker(**changes) -> Worker:
    now = timezone.now()
    values = {
        "name": "host:1",
        "host": "host",
        "pid": 1,
        "slots": 4,
        "started_at": now,
        "heartbeat_at": now,
        "beating_since": now,
        "lease_until": now + timedelta(seconds=30),
        "heartbeat_interval": 5,
        "holds_session_lock": True,
        **changes,
    }
    return Worker.objects.create(**values)


class TestJobstatus:
    def test_an_empty_queue_is_shown_in_three_lines(self):
        assert run("jobstatus").split("\n\n") == [
            "No unfinished jobs.",
            "No workers.",
            "Finished and kept: 0 successful (for 7 d), 0 failed (for ever), "
            "0 cancelled (for 7 d).\n",
        ]

    def test_it_counts_by_queue_and_status(self):
        enqueue_many([noop.bind()] * 3)
        enqueue(noop.using(queue_name="mail", run_after=timedelta(hours=1)))
        enqueue(noop).fail()
        lines = run("jobstatus").splitlines()
        assert lines[1].split()[:5] == ["default", "3", "0", "0", "0"]
        assert lines[2].split()[:5] == ["mail", "0", "1", "0", "0"]
        assert "1 failed" in lines[-1]

    def test_it_shows_workers_and_their_jobs(self):
        worker = make_worker(queues="mail,default", name="web1:7")
        enqueue(noop)
        Job.objects.claim(worker)
        assert "web1:7  mail, default  4      1" in run("jobstatus")

    def test_json_is_one_object_with_the_same_numbers(self):
        enqueue(noop)
        state = json.loads(run("jobstatus", "--json"))
        assert state["queues"][0]["ready"] == 1
        assert state["problems"] == []

    def test_check_is_content_with_fresh_jobs(self):
        enqueue(noop)
        assert run("jobstatus", "--check") == "No problems.\n"


class TestPrunejobs:
    def test_it_deletes_what_is_older(self):
        enqueue(noop).cancel()
        enqueue(noop).fail()
        age(3600)
        enqueue(noop).fail()
        unfinished = enqueue(noop)
        assert run("prunejobs", "--older", "30m") == "Deleted 2 jobs.\n"
        assert Job.objects.count() == 2
        assert Job.objects.filter(pk=unfinished.pk).exists()

    def test_it_deletes_only_the_statuses_that_are_named(self):
        enqueue(noop).cancel()
        enqueue(noop).fail()
        age(3600)
        assert run("prunejobs", "--older", "1s", "--status", "failed") == (
            "Deleted 1 job.\n"
        )

    def test_without_an_age_it_follows_the_retention(self, settings):
        settings.PGJOBS = {"RETENTION": {"CANCELLED": timedelta(hours=1)}}
        enqueue(noop).cancel()
        enqueue(noop).fail()
        age(7200)
        assert run("prunejobs") == "Deleted 1 job.\n"

    @pytest.mark.parametrize("older", ["", "h", "-1h", "nan", "3w", "1 h 5"])
    def test_a_wrong_duration_is_refused(self, older):
        assert "72h" in str(refused("prunejobs", f"--older={older}"))

    def test_an_unfinished_status_is_refused(self):
        assert "RUNNING" in str(refused("prunejobs", "--status", "running"))


class TestEnqueuejob:
    def test_it_prints_the_id_of_the_new_job(self):
        printed = run("enqueuejob", "tests.add", "--args", '{"a": 4}')
        assert Job.objects.get(pk=int(printed)).kwargs == {"a": 4, "b": 1}

    def test_arguments_may_be_given_by_name(self):
        printed = run("enqueuejob", "tests.add", "a=4", "b=2")
        assert Job.objects.get(pk=int(printed)).kwargs == {"a": 4, "b": 2}
        printed = run("enqueuejob", "tests.echo", "value=Ada = 4")
        assert Job.objects.get(pk=int(printed)).kwargs == {"value": "Ada = 4"}

    def test_options_override_the_tasks(self):
        run("enqueuejob", "tests.noop", "--queue", "mail", "--priority", "-7")
        job = Job.objects.get()
        assert (job.queue_name, job.priority) == ("mail", -7)

    @pytest.mark.parametrize(
        "when", ["15m", "2999-12-24T18:00+01:00", "2999-12-24 18:00"]
    )
    def test_it_can_run_later(self, when):
        run("enqueuejob", "tests.noop", "--run-after", when)
        assert Job.objects.get().status == "SCHEDULED"

    @pytest.mark.parametrize(
        "arguments, complaint",
        [
            (
                ["tests.ad"],
                "registered as 'tests.ad'. Did you mean 'tests.add'?",
            ),
            (["shop.noop_of_it"], "registered as 'shop.noop_of_it'. There are: "),
            (["tests.add", "--args", "[1"], "--args is not JSON"),
            (["tests.add", "--args", "[1]"], "--args must be a JSON object"),
            (["tests.add", "--args", "[" * 5000], "--args is not JSON"),
            (["tests.add", "--args", '{"a": "x"}'], "a: input should be a valid int"),
            (["tests.add", "--args", '{"a": 1, "c": 1}'], "c: is no parameter"),
            (["tests.add", "4"], "An argument must be NAME=VALUE, got '4'."),
            (["tests.add", "a=x"], "a: input should be a valid int"),
            (["tests.noop", "--run-after", "tomorrow"], "--run-after must be"),
            (["tests.noop", "--run-after", "2026-13-01T00:00"], "--run-after must be"),
            (["tests.noop", "--priority", "101"], "priority must be a whole number"),
            (["tests.noop", "--queue", "a,b"], "queue_name must be"),
            (["tests.noop", "--database", "other"], "There is no database 'other'"),
        ],
    )
    def test_bad_input_is_refused_before_anything_is_written(
        self, arguments, complaint
    ):
        assert complaint in str(refused("enqueuejob", *arguments))
        assert not Job.objects.exists()

    def test_arguments_fit_the_task(self):
        run("enqueuejob", add.name, "--args", '{"a": 1, "b": 2}')
