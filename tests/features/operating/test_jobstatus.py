"""jobstatus for monitoring."""

import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from types import SimpleNamespace

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from pgjobs.features.operating import status
from pgjobs.models import AuditEntry, Queue
from tests.operators import insert, make_job, make_worker, operator

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    output = StringIO()
    call_command(*arguments, stdout=output, no_color=True)
    return output.getvalue()


def refused(*arguments: str) -> str:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    return str(raised.value)


# Limits of a monitoring system


def test_ready_job_that_waits_longer_than_the_limit_is_a_problem():
    make_worker(queues="")
    insert(enqueued_at="now() - interval '50 seconds'")
    problem = refused("jobstatus", "--check", "--max-latency", "40s")
    assert "queue default has waited 5" in problem
    assert problem.endswith(" s, more than 40 s.")
    assert run("jobstatus", "--check", "--max-latency", "5m") == "No problems.\n"
    Queue.objects.create(name="default").pause()
    assert run("jobstatus", "--check", "--max-latency", "40s") == "No problems.\n"


def test_more_failed_jobs_than_the_limit_are_a_problem():
    for hours in (0, 0, 2, 2):
        insert(status="'FAILED'", finished_at=f"now() - {hours} * interval '1 hour'")
    said = refused("jobstatus", "--check", "--max-failed", "1")
    assert said == "More than 1 job failed in the last 1 h."
    assert run("jobstatus", "--check", "--max-failed", "2") == "No problems.\n"
    refused("jobstatus", "--check", "--max-failed", "3", "--within", "1d")


def test_problems_of_limits_are_in_the_json():
    make_job()
    state = json.loads(run("jobstatus", "--json", "--max-failed", "0"))
    assert state["problems"] == ["More than 0 jobs failed in the last 1 h."]


def sleep_by(monkeypatch, sleep: Callable[[int], None]) -> None:
    """Let the command sleep by this; other threads of the tests sleep as ever."""
    monkeypatch.setattr(status, "time", SimpleNamespace(sleep=sleep))


def test_watching_prints_the_state_until_it_is_interrupted(monkeypatch):
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt
        make_job("READY", queue_name="later")

    sleep_by(monkeypatch, sleep)
    text = run("jobstatus", "--watch", "5s")
    assert pauses == [5, 5]
    assert text.count("Finished and kept") == 2
    assert "later" not in text.split("Finished and kept")[0]
    assert "later" in text.split("Finished and kept")[1]


@pytest.fixture
def terminal(monkeypatch):
    """Return a file that is a terminal of 80 columns and 10 lines."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "10")
    return status.Screen()


def test_watching_shows_what_fits_on_the_screen_the_problems_first(
    monkeypatch, terminal
):
    long_ago = timezone.now() - timedelta(hours=1)
    for number in range(20):
        make_job("READY", queue_name=f"queue-{number}", enqueued_at=long_ago)
    sleep_by(monkeypatch, lambda seconds: interrupt())
    call_command("jobstatus", "--watch", stdout=terminal)
    first, *lines = terminal.getvalue().splitlines()
    assert "No worker is alive" in first
    assert len(lines) == 8
    assert lines[-1].endswith("more lines")


def interrupt():
    raise KeyboardInterrupt


def test_status_says_which_person_has_paused_a_queue():
    queue = Queue.objects.create(name="mail")
    client = operator("view_queue", "pause_queue")
    client.post(f"/admin/pgjobs/queue/pause/{queue.pk}/", {"note": "It moves."})
    assert f" by {client.user}, It moves." in run("jobstatus")


def test_problem_is_acknowledged_and_counts_again():
    insert(queue_name="'mail'", enqueued_at="now() - interval '5 minutes'")
    make_worker("first", queues="other")
    said = run(
        "jobstatus", "--acknowledge", "queue_unserved", "mail", "--note", "known"
    )
    assert said == "queue_unserved mail counts no more for 4 h.\n"
    assert "No problems." in run("jobstatus", "--check")
    assert "known" in run("jobstatus")
    entry = AuditEntry.objects.get()
    assert (entry.act, entry.chosen, entry.via) == (
        "acknowledge",
        "queue_unserved mail",
        "command",
    )
    said = run("jobstatus", "--take-back", "queue_unserved", "mail")
    assert said == "queue_unserved mail counts again.\n"
    with pytest.raises(CommandError, match="Queue mail has 1 job to run"):
        run("jobstatus", "--check")
    said = run("jobstatus", "--take-back", "queue_unserved", "mail")
    assert said == "queue_unserved mail was not acknowledged.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("queue_unserfed", "mail"), "There is no kind 'queue_unserfed'. There are: "),
        (("queue_unserved", "mial"), "There is no problem 'queue_unserved mial' now."),
    ],
)
def test_what_is_no_problem_is_not_acknowledged(words, said):
    insert(queue_name="'mail'", enqueued_at="now() - interval '5 minutes'")
    make_worker("first", queues="other")
    with pytest.raises(CommandError) as caught:
        run("jobstatus", "--acknowledge", *words)
    assert str(caught.value).startswith(said)
    assert not AuditEntry.objects.exists()
